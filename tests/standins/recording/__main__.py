"""Runs scripts one after another in this process and reports the events of each.

Reads lines ``{"device", "steps", "code" | "path"}`` and answers each with a line
``{"events": [...], "error": text or null}``. A script with a ``path`` is a file with its folder
on sys.path; one with ``code`` (Latin-1 for its bytes) stands alone.
"""

import contextlib
import io
import json
import os
import signal
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "accelerate"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import events
import torch
import torch_xla  # noqa: F401
import tracy  # noqa: F401


def run(script):
    """One script: its events, and the last line of what ended it, if anything but the stop."""
    events.reset()
    os.environ["INSTRUMENT_STEPS"] = str(script["steps"])
    path = script.get("path", "")
    code = script.get("code")
    folder = str(Path(path).parent)
    code = Path(path).read_bytes() if code is None else code.encode("latin-1")
    before = set(sys.modules)
    namespace = {"__name__": "__main__", "__file__": path or "<generated>"}
    if path:
        sys.path.insert(0, folder)
    error = None
    events.install()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, path or "<generated>", "exec", dont_inherit=True), namespace)
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


def out_of_time(*signal_and_frame):
    raise TimeoutError("the script does not end")


def main():
    answers = sys.stdout
    signal.signal(signal.SIGPROF, out_of_time)
    os.environ["INSTRUMENT_PROFILER"] = "tracy"
    for line in sys.stdin:
        script = json.loads(line)
        torch.DEVICE[0] = script["device"]
        signal.setitimer(signal.ITIMER_PROF, 10)  # of CPU time: a busy machine ends no script
        answer = run(script)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    sys.stdout = io.StringIO()  # the recorders' summaries at exit


if __name__ == "__main__":
    main()
