"""What tests share: worlds, servers, processes, and looks at what a crawl leaves behind."""
