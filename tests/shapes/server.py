"""One process that has imported torch, and forks for every script.

Started as ``python server.py SOCKET``; ends when its stdin does. An order is one line of JSON with
``argv``, ``cwd`` and ``env``, sent with the three standard streams; the answer is the exit code.
It is what the :mod:`interpreter` was asked to run, watched by the :mod:`observer` when OBSERVED
names a file.
"""

import atexit
import importlib.abc
import importlib.machinery
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import types
from pathlib import Path

import observer

PRELOADED = (
    *("torch", "torch._dynamo", "torch.distributed", "torch.func", "torch.nn.parallel"),
    *("torch.utils.checkpoint", "torch.utils.data", "torch.optim.swa_utils", "torch.profiler"),
)
LIMIT_S = 600


def main(address: str) -> None:
    """Serve until stdin ends; every order is answered by a child of its own."""
    for name in PRELOADED:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    code = 1
    try:
        data, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        while not data.endswith(b"\n"):
            data += connection.recv(1 << 16)
        order = json.loads(data)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        code = _script(order["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(b"%d" % code)
    except BaseException:  # noqa: BLE001  (nothing may reach the server's own loop)
        traceback.print_exc()
    finally:
        os._exit(code)


def _script(argv: list[str]) -> int:
    """As ``python SCRIPT ARGS``, or ``python -m MODULE ARGS``."""
    watched = observer.install(os.environ.get("OBSERVED", ""))
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*paths, *sys.path[1:]]  # the first is this file's own folder
    Held("torch")
    try:
        _execute(argv)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  (as the interpreter itself)
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    watched.save()
    return code


class Held(importlib.abc.Loader, importlib.abc.MetaPathFinder):
    """Hands out torch as if it was imported now, to whoever waits for that moment."""

    def __init__(self, name: str) -> None:
        self.module = sys.modules.pop(name)
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = list(self.module.__path__)
        self.spec = spec
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Its spec."""
        return self.spec if name == self.spec.name else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module as it is."""
        return self.module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing: that was done before the fork."""


def _execute(argv: list[str]) -> None:
    if argv[0] == "-m":
        sys.argv[:] = argv[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = argv
    script = Path(argv[0]).absolute()  # as the interpreter names it
    sys.path.insert(0, str(script.parent))
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(script), __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(compile(script.read_bytes(), script, "exec"), module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1])
