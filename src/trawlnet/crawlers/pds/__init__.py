"""The pds crawler: finds and scans every PDS, and keeps a public registry of them."""
