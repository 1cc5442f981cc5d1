-- URLs with this text in them, some of which may be below a domain.
SELECT pds_url FROM pds_registry WHERE pds_url LIKE :pattern ESCAPE '!'
