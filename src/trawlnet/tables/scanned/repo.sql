-- One repo of a PDS, pending or not, as it stands for one scope and for all.
SELECT MAX(CASE WHEN scope = :scope THEN rev END), MAX(reading), MAX(is_held)
FROM scan_repos WHERE did = :did AND pds_url = :pds_url
