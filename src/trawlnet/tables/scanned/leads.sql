-- The collections that a repo is said to have.
SELECT collection FROM scan_leads
WHERE pds_url = :pds_url AND scope = :scope AND did = :did ORDER BY collection
