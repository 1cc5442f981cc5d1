"""Reports as single HTML files: figures, pictures, and the table behind each picture."""
