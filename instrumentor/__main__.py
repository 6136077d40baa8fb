"""`python -m instrumentor` is `instrument`."""

from instrumentor.cli.main import main

main()
