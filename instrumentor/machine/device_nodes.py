"""The devices of this machine, by their nodes, and who has them open; nothing opens one.

A simulator takes the place of all of them: tt-metal loads it when its variable is set.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.shared.caveats import OF_XLA, Caveat

DEVICE_ROOT = Path("/dev/tenstorrent")
DEVICE_ROOT_VARIABLE = "INSTRUMENT_DEVICE_ROOT"
SIMULATOR_VARIABLE = "TT_METAL_SIMULATOR"  # tt-metal's own: the simulator's library or folder
PJRT_VARIABLE = "PJRT_DEVICE"  # torch_xla's own: what it runs on


class Holder(Struct, frozen=True):
    """A process that has a device open. ``age_s`` in seconds."""

    pid: int
    user: str
    age_s: float
    command: str
    devices: tuple[Path, ...]


def find_devices(
    root: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """The device nodes, in numeric order; empty when there is no Tenstorrent card to be used."""
    if find_simulator(env) is not None:
        return ()
    root = root or device_root(env)
    if not root.is_dir():
        return ()
    # The driver (tt-kmd) keeps a folder of links there, too: by-id.
    nodes = [path for path in root.iterdir() if not path.is_dir()]
    return tuple(sorted(nodes, key=lambda path: (len(path.name), path.name)))


def find_simulator(env: Mapping[str, str] | None = None) -> Path | None:
    """The simulator that a run would use instead of any device; it need not be there."""
    named = (os.environ if env is None else env).get(SIMULATOR_VARIABLE)
    return Path(named) if named else None


def may_run_xla(env: Mapping[str, str] | None = None) -> bool:
    """Whether a script that can run on XLA would do so here: where nothing says so it would not."""
    environment = os.environ if env is None else env
    named = environment.get(PJRT_VARIABLE) or find_simulator(env)
    return bool(named or find_devices(env=env))


def planned_here(caveats: Iterable[Caveat], env: Mapping[str, str] | None = None) -> list[Caveat]:
    """What is planned for a script and to be known ahead of a run on this machine.

    A run knows its device, and says afterwards what is true of that one.
    """
    there = may_run_xla(env)
    return [each for each in caveats if there or each.kind not in OF_XLA]


def device_root(env: Mapping[str, str] | None = None) -> Path:
    """The folder of the device nodes; ``INSTRUMENT_DEVICE_ROOT`` names another one for tests."""
    environment = os.environ if env is None else env
    return Path(environment.get(DEVICE_ROOT_VARIABLE) or DEVICE_ROOT)


def device_holders(root: Path | None = None) -> tuple[Holder, ...]:
    """The processes that have a device open, as far as this user may see."""
    import getpass
    import time

    import psutil

    prefix = str(root or device_root()) + os.sep
    holders = []
    for process in psutil.process_iter():
        try:
            opened = opened_below(process.pid, prefix)
            if not opened:
                continue
            with process.oneshot():
                holders.append(
                    Holder(
                        pid=process.pid,
                        user=process.username() or getpass.getuser(),
                        age_s=max(0.0, time.time() - process.create_time()),
                        command=" ".join(process.cmdline()) or process.name(),
                        devices=tuple(Path(path) for path in opened),
                    )
                )
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return tuple(holders)


def opened_below(pid: int, prefix: str) -> list[str]:
    """Files below a folder that a process has open, as far as this user may see."""
    # Not psutil's open_files: it lists regular files only, and these are device nodes.
    opened = set()
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                target = str(link.readlink())
                if target.startswith(prefix):
                    opened.add(target)
    except OSError:  # ended meanwhile, or another user's
        return []
    return sorted(opened)
