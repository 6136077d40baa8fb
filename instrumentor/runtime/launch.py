"""Runs a script as ``python SCRIPT ARGS`` would, inside a process that another program began.

Tracy joins its command line with spaces and hands it to a shell, replaces ``__main__`` and keeps
the script's path as typed. So this file is what Tracy is given: it stands in a folder whose path
holds nothing that a shell would read, and takes the script's path and arguments from
``launch.json`` beside it. Tracy works in a folder of ours, so ``cwd`` and ``environment`` of the
order say where the script is at home (None: not set), and ``typed`` what its ``sys.argv[0]`` is.
The script gets its own ``__main__`` module, so that pickling and spawned workers find its classes.
Instead of ``script`` the order may name a
``module`` (as ``python -m``), ``code`` (as ``python -c``) or another ``program``, whose place this
process takes.

Beside it appear ``launch.pid`` (the process that runs the script) and, at the end,
``outcome.json``: ``{"exit_code", "exception"}`` of the script itself, and ``workers``, the number
of processes that it made with multiprocessing, when there were some. With ``observe`` the order
asks the module at ``observer`` to watch the script first.

Self-contained, Python 3.8 or newer.
"""

# os.path throughout: this start-up is part of the user's run.
# ruff: noqa: PTH100, PTH105, PTH109, PTH118, PTH120, PTH123
from __future__ import annotations

import io
import json
import os
import sys
import types
from importlib.machinery import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


def exit_code_of(error: BaseException) -> int:
    """The code with which Python itself would have left for this exception."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        # The kernel keeps eight bits of a number; for anything else Python prints it and leaves 1.
        return error.code & 0xFF if isinstance(error.code, int) else 1
    return 1


def enter(cwd: str, environment: dict[str, str | None]) -> None:
    """Go to the script's working directory; the profiler's own is no place to import from."""
    left = os.getcwd()
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != left]
    os.chdir(cwd)
    remembers = sys.modules.get("multiprocessing.process")
    if remembers is not None:  # it would send spawned workers to the folder that was left
        remembers.ORIGINAL_DIR = cwd  # type: ignore[attr-defined]
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def set_search_path(first: str) -> None:
    """Make ``sys.path`` what ``python SCRIPT`` would have given, with ``first`` at its head.

    The folder of this file goes, and so does the working directory when only ``python -m`` of
    the wrapper had put it there: it could hide an installed package behind a folder's name.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    cwd = os.getcwd()
    asked = os.environ.get("PYTHONPATH") or None
    keep_cwd = asked is not None and cwd in map(os.path.abspath, asked.split(os.pathsep))
    kept = []
    for entry in sys.path:
        folder = os.path.abspath(entry)
        if folder == here or (folder == cwd and not keep_cwd):
            continue
        kept.append(entry)
    # PYTHONSAFEPATH (Python 3.11) asks for no such entry.
    if not getattr(sys.flags, "safe_path", False):
        kept.insert(0, first)
    sys.path[:] = kept


def main_module(script: str) -> types.ModuleType:
    """A fresh ``__main__`` with the attributes that the interpreter gives to a script."""
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=script,
        __cached__=None,
        __package__=None,
        __spec__=None,  # spawn then starts its workers from __file__
        __loader__=SourceFileLoader("__main__", script),
        __builtins__=__builtins__,
    )
    return module


def note(folder: str, name: str, text: str) -> None:
    """Write a small file in one step, so that a reader never sees half of it."""
    path = os.path.join(folder, name)
    with open(path + ".part", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".part", path)


def execute(order: dict[str, Any]) -> None:
    """Run what the order names, in this process."""
    if "program" in order:
        sys.stdout.flush()  # what is still in the buffer would be lost with this program
        os.execvp(order["program"], [order["program"]] + order["arguments"])
    if "module" in order:
        import runpy

        sys.argv[:] = [order["module"]] + order["arguments"]
        set_search_path(os.getcwd())
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
        return
    script = order.get("script", "-c")
    sys.argv[:] = [order.get("typed") or script] + order["arguments"]
    set_search_path(os.path.dirname(script) if "script" in order else "")
    module = main_module(script)
    if "code" in order:
        del module.__dict__["__file__"]  # `python -c` gives none
    # The wrapper's module must outlive the exchange: its functions are still running.
    module_before = sys.modules.get("__main__")
    sys.modules["__main__"] = module
    sys.modules.setdefault("_instrument_wrapper", module_before)  # type: ignore[arg-type]
    if "code" in order:
        exec(compile(order["code"], "<string>", "exec"), module.__dict__)
        return
    with io.open_code(script) as stream_of_code:
        code = compile(stream_of_code.read(), script, "exec")
    exec(code, module.__dict__)


def observer(path: str) -> Any:
    """The module that watches the script as it is, under the name that instrumented files know."""
    import importlib.util

    name = os.path.split(path)[1][: -len(".py")]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def workers() -> int:
    """How many processes multiprocessing has made here."""
    counter = getattr(sys.modules.get("multiprocessing.process"), "_process_counter", None)
    text = repr(counter)  # count(3) after two
    return int(text[6:-1]) - 1 if text.startswith("count(") else 0


def launch(folder: str) -> None:
    """Run the script named in ``folder/launch.json``; its exceptions pass through.

    An interrupted script leaves with 0, so that the profiler still makes its report from what
    was measured; ``outcome.json`` says 130.
    """
    with open(os.path.join(folder, "launch.json"), encoding="utf-8") as stream:
        order = json.load(stream)
    note(folder, "launch.pid", str(os.getpid()))
    outcome: dict[str, int | str | None] = {"exit_code": 0, "exception": None}
    try:
        if "cwd" in order:
            enter(order["cwd"], order.get("environment", {}))
        if "observe" in order:
            observer(order["observer"]).observe(order["observe"])
        execute(order)
    except BaseException as error:
        outcome = {"exit_code": exit_code_of(error), "exception": type(error).__name__}
        if not isinstance(error, KeyboardInterrupt):
            raise
        print("KeyboardInterrupt: the script was interrupted", file=sys.stderr)
    finally:
        if workers():
            outcome["workers"] = workers()
        note(folder, "outcome.json", json.dumps(outcome))


if __name__ == "__main__":
    launch(os.path.dirname(os.path.abspath(__file__)))
