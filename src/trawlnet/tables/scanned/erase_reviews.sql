-- What a PDS that wants to be forgotten has shown.
DELETE FROM reviews WHERE pds_url = :pds_url
