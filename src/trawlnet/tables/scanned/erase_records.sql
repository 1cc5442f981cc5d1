-- What a PDS that wants to be forgotten has shown.
DELETE FROM records WHERE pds_url = :pds_url
