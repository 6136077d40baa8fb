"""Runs scripts one after another in this process and reports the events of each.

Reads from stdin ``{"device": ..., "scripts": [{"name", "code" | "path", "steps"}]}``, writes
``{name: {"events": [...], "error": text or null}}`` to the file named by the first argument.
A script with a ``path`` is a file with its folder on sys.path; one with ``code`` stands alone.
"""

import contextlib
import io
import json
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import events
import torch
import torch_xla  # noqa: F401
import tracy  # noqa: F401


def run(script):
    """One script: its events, and the last line of what ended it, if anything but the stop."""
    events.reset()
    os.environ["INSTRUMENT_STEPS"] = str(script.get("steps", 5))
    path = script.get("path", "")
    code = script.get("code")
    folder = str(Path(path).parent)
    if code is None:
        code = Path(path).read_bytes()
    before = set(sys.modules)
    namespace = {"__name__": "__main__", "__file__": path or script["name"]}
    if path:
        sys.path.insert(0, folder)
    error = None
    events.install()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, path or script["name"], "exec", dont_inherit=True), namespace)
    except SystemExit as stop:
        if stop.code not in (0, None):
            error = f"SystemExit({stop.code!r})"
    except BaseException:  # noqa: BLE001 - whatever a script raises is its result
        error = traceback.format_exc()
    finally:
        events.uninstall()
        torch._grad[0] = True
        if path:
            sys.path.remove(folder)
        for name in set(sys.modules) - before:
            del sys.modules[name]
    return {"events": list(events.log), "error": error}


def main():
    request = json.loads(sys.stdin.read())
    torch.DEVICE[0] = request["device"]
    os.environ["INSTRUMENT_PROFILER"] = "tracy"
    answers = {script["name"]: run(script) for script in request["scripts"]}
    Path(sys.argv[1]).write_text(json.dumps(answers))
    sys.stdout = io.StringIO()  # the recorders' summaries at exit


if __name__ == "__main__":
    main()
