"""Starts ``python -m tracy``: its page stays in a folder of ours, and it waits for no one in vain.

From 0.75 on, Tracy copies each trace to ``TT_METAL_HOME/build/profiler/build_wasm``, points a link
there at it, and serves that folder on all interfaces by a process that outlives the run and first
kills the one before it. None of it is wanted here, no option turns it all off, and what is left by
a killed run would be found by nobody: so these names of the package are given other values. A
version without them is started as it is.

When the script has ended, Tracy waits two minutes for its capture program, also where that one has
had nobody to listen to: a client serves Tracy's port as long as its process lives, so whether there
ever was one is seen from the port.

Runs in the script's interpreter, in the folder that takes what Tracy leaves. Self-contained,
Python 3.8 or newer.
"""

# os.path throughout: this start-up is part of the user's run.
# ruff: noqa: PTH100, PTH120, SIM105
from __future__ import annotations

import importlib
import os
import runpy
import subprocess
import sys
import threading
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONNECTIONS = ("/proc/net/tcp", "/proc/net/tcp6")
LOOK_S = 0.5  # what the kernel remembers of a connection is much older
LAST_S = 5.0  # for a capture program that has its data from elsewhere
#: SYN_SENT and CLOSE: the capture program, which has found nobody.
_UNANSWERED = ("02", "07")


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


def served(port: int) -> bool:
    """Whether the kernel knows of a process that listens or has spoken at this TCP port."""
    wanted = f"{port:04X}"
    for path in CONNECTIONS:
        try:
            lines = Path(path).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:
            continue
        for words in map(str.split, lines):
            ends = {address.rpartition(":")[2] for address in words[1:3]}
            if wanted in ends and words[3] not in _UNANSWERED:
                return True
    return False


class Client(threading.Thread):
    """Looks for a client of Tracy's until there is one."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.seen = port, False

    def run(self) -> None:
        while not self.seen:
            self.seen = served(self.port)
            time.sleep(LOOK_S)


def give_up_without_client(set_up: Callable[..., Any]) -> Callable[..., Any]:
    """Tracy's start of the capture program; its wait for that one ends early without a client."""

    def start(verbose: bool, output: object, tools: object, port: str) -> Any:
        capture = set_up(verbose, output, tools, port)
        client = Client(int(port))
        if any(map(os.path.exists, CONNECTIONS)):
            client.start()
        else:
            client.seen = True  # who knows
        wait = capture.communicate

        def communicate(timeout: float | None = None) -> Any:
            if timeout is None or timeout <= LAST_S or client.seen:
                return wait(timeout=timeout)
            try:
                return wait(timeout=LAST_S)
            except subprocess.TimeoutExpired:
                if client.seen or served(int(port)):
                    return wait(timeout=timeout - LAST_S)
            capture.terminate()
            wait()
            told = f"nothing served port {port} while the script ran"
            sys.exit(f"No profiling data could be captured: {told}, so there was no Tracy client.")

        capture.communicate = communicate
        return capture

    return start


if __name__ == "__main__":
    if os.path.abspath(sys.path[0]) == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]  # this folder's names are nothing for Tracy to import
    keep_page_in(Path.cwd() / "page")
    tracy = importlib.import_module("tracy")
    if hasattr(tracy, "run_report_setup"):
        vars(tracy)["run_report_setup"] = give_up_without_client(tracy.run_report_setup)
    runpy.run_module("tracy", run_name="__main__", alter_sys=True)
