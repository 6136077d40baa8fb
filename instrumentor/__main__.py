"""`python -m instrumentor` is `instrument`."""

from instrumentor.cli import main

main()
