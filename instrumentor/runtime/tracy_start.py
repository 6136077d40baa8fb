"""Starts ``python -m tracy`` so that the page it makes for the browser stays in a folder of ours.

From 0.75 on, Tracy copies each trace to ``TT_METAL_HOME/build/profiler/build_wasm``, points a link
there at it, and serves that folder on all interfaces by a process that outlives the run and first
kills the one before it. None of it is wanted here, no option turns it all off, and what is left by
a killed run would be found by nobody: so these names of the package are given other values. A
version without them is started as it is.

Runs in the script's interpreter, in the folder that takes what Tracy leaves. Self-contained,
Python 3.8 or newer.
"""

# os.path throughout: this start-up is part of the user's run.
# ruff: noqa: PTH100, PTH120, SIM105
from __future__ import annotations

import importlib
import os
import runpy
import sys
from pathlib import Path


def no_server(*arguments: object, **options: object) -> None:
    """In the place of the function that starts the web server."""


def keep_page_in(folder: Path) -> None:
    """Give the installed package another folder for its page, and no server."""
    modules = [importlib.import_module("tracy")]
    try:
        modules.append(importlib.import_module("tracy.serve_wasm"))
    except ImportError:
        pass  # an older version
    folder.mkdir(exist_ok=True)
    moved = {"PROFILER_WASM_DIR": folder, "launch_server_subprocess": no_server}
    for module in modules:
        for name, value in moved.items():
            if hasattr(module, name):
                setattr(module, name, value)
    # The trace is copied from where a run without -o has it: somebody else's, if one is there.
    modules[0].PROFILER_LOGS_DIR = folder / "none"  # type: ignore[attr-defined]


if __name__ == "__main__":
    if os.path.abspath(sys.path[0]) == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]  # this folder's names are nothing for Tracy to import
    keep_page_in(Path.cwd() / "page")
    runpy.run_module("tracy", run_name="__main__", alter_sys=True)
