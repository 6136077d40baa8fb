"""`python -m instrumentor` is `instrument`."""

import os
import sys

# `-m` puts the working folder first: a `git.py` or `yaml.py` that lies there is none of ours.
try:
    FOLDER = os.getcwd()  # noqa: PTH109 - pathlib's own imports would be searched there
except FileNotFoundError:
    FOLDER = ""
if sys.path[:1] == [FOLDER] and not __file__.startswith(FOLDER + os.sep):
    del sys.path[0]

from instrumentor.cli.main import main

main()
