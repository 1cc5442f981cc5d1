"""`python -m trawlnet` is the same as `trawlnet`."""

from trawlnet.cli.main import main

main()
