"""A stand-in of the ``tracy`` package, for tests on machines without a Tenstorrent device.

It keeps the contract of the real one as seen from outside: options, the second start through a
shell, exit codes, files, signposts, the capture program's connection, and the failures. There is
no device: the operations in its report are made up (report.py), the same in every run.

Environment:
    STANDIN_TRACY_VERSION   0.65, 0.72, 0.75, 0.78 or 0.81 (default): options, tool names, formats
    STANDIN_TRACY_FAIL      a failure to show, see __main__.py and client.py
    STANDIN_TRACY_PROGRAMS  programs in each step (18)
    STANDIN_TRACY_CRANK     show tt-crank's zones, too
    STANDIN_TRACY_SCALE     factor on the made-up kernel times (1)
    STANDIN_TRACY_WAIT      seconds to wait for the capture program: 120, and 1 where a failure
                            makes that vain (the real one: 15, later 120)
    STANDIN_CAPTURE_OUTLIVE the capture program survives the end of its shell
"""

# ruff: noqa: PTH110, PTH118
import os
import subprocess
import sys
import time

from tracy.common import *  # noqa: F403 - as the real package: its names are found in tracy
from tracy.common import TRACY_CAPTURE_TOOL, TRACY_FILE_NAME
from tracy.common import VERSION as VERSION

FAIL = os.environ.get("STANDIN_TRACY_FAIL", "")
IN_VAIN = ("capture-died", "protocol")
WAIT_S = float(os.environ.get("STANDIN_TRACY_WAIT") or (1 if FAIL in IN_VAIN else 120))

if FAIL == "plugin":
    raise ImportError("cannot import name 'setup_tt_metal_home' from 'pjrt_plugin_tt'")
if FAIL.startswith("module:"):
    raise ModuleNotFoundError(f"No module named '{FAIL[7:]}'", name=FAIL[7:])


def log(level, where, text):
    """A line as loguru writes it."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{stamp}.000 | {level:<8} | {where} - {text}", file=sys.stderr, flush=True)


def run_report_setup(verbose, outputFolder, binFolder, port):
    """Start the capture program."""
    tool = os.path.join(binFolder, TRACY_CAPTURE_TOOL)
    if FAIL == "no-tools" or not os.path.exists(tool):
        log(
            "ERROR",
            "tracy:run_report_setup",
            "Tracy tools were not found. Please make sure you are on a Tracy-enabled build "
            "(default).",
        )
        sys.exit(1)
    logs = os.path.join(outputFolder, ".logs")
    # deliberately unquoted, as in the original
    subprocess.run(f"rm -rf {logs}; mkdir -p {logs}", shell=True, check=True)
    command = f"{tool} -o {os.path.join(logs, TRACY_FILE_NAME)} -f -p {port}"
    started = "exit 1" if FAIL == "capture-died" else command
    said = None if verbose else subprocess.DEVNULL
    return subprocess.Popen(started, shell=True, stdout=said, stderr=said)


def signpost(header, message=None):
    """Mark this moment in the profile."""
    from tracy import client

    text = header if message is None else f"{header}\n{message}"
    now = client.message(f"`TT_SIGNPOST: {text}`")
    log("INFO", "tracy:signpost:51", header if message is None else f"{header} : {message} ")
    client.step_marker(header, now)
