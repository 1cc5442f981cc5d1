"""From archives to the table of records, resumable."""
