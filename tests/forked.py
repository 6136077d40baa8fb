"""Command lines of the tool in processes of their own, forked from one that has imported it.

An interpreter that imports the tool anew takes longer than most commands. Only what reads the
interpreter's own start (``PYTHONUTF8``, a locale, a planted module) needs one: ``run_cli(fresh=)``.
"""

from __future__ import annotations

import atexit
import os
import pkgutil
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path

import instrumentor
import instrumentor_analysis

# Of the copy's own interpreter; a module that is not there has no effect on the others.
_NOT_OURS = ("instrumentor.runtime", "instrumentor.__main__")
_HEAVY = ("numpy", "libcst", "jinja2", "yaml", "sqlite3", "typer.core", "filelock", "psutil")


def server() -> ForkServerContext:
    """What forks, until the tests end; started now, its environment is that of no single test."""
    context = get_context("forkserver")
    context.set_forkserver_preload([*_modules(), *_HEAVY, __name__])
    forkserver.ensure_running()
    return context


def run(
    context: ForkServerContext,
    arguments: list[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    first: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """``python -m instrumentor ARGUMENTS``, as :func:`subprocess.run` gives it back.

    Args:
        first: done in the process before that.

    Raises:
        TimeoutExpired: it is killed then.
    """
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdout", "stderr")]
        given = (arguments, str(cwd), dict(env), streams, first)
        process = context.Process(target=_tool, args=given)
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, timeout_s)
        out, err = (path.read_text(encoding="utf-8") for path in streams)
    return subprocess.CompletedProcess(arguments, process.exitcode, out, err)


def _modules() -> list[str]:
    found = []
    for package in (instrumentor, instrumentor_analysis):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_NOT_OURS):
                found.append(module.name)
    return found


def _tool(
    arguments: list[str],
    cwd: str,
    env: dict[str, str],
    streams: list[Path],
    first: Callable[[], None] | None,
) -> None:
    for number, path in enumerate(streams, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [cwd, *paths, *sys.path]
    sys.argv[1:] = arguments
    sys.orig_argv[:] = [sys.executable, "-m", "instrumentor", *arguments]
    if first is not None:
        first()
    try:
        runpy.run_module("instrumentor", run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
