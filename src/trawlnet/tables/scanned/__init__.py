"""What PDS scans have found, and how far each scan has come."""
