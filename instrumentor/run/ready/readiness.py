"""Makes sure, before anything is started, that a run can begin: or says what is in the way.

The doctor's failed checks stop a run; processes that hold the device are ended and boards are
reset only when that was asked for; and one run at a time has a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from instrumentor.machine.device_locks import end_gently, find_smi, held, reset
from instrumentor.machine.device_nodes import Holder
from instrumentor.machine.environment import Machine
from instrumentor.run.ready.doctor import CHECKS, Check, PlannedRun, describe, doctor, failed, host
from instrumentor.shared.errors import NotReady
from instrumentor.shared.progress import Progress

# Not to stop a run for: which modules a version of Tracy really imports differs, and a script may
# reach the device without the plugin (ttnn). When Tracy cannot be imported, its own check says so.
# A library that was patched, or that the script does not load, may be profiled all the same.
NOT_FATAL = ("report-modules", "pjrt-plugin", "tracy-build")


@contextmanager
def ready(
    planned: PlannedRun, progress: Progress, *, reset: bool = False, end_holders: bool = False
) -> Iterator[None]:
    """Hold the machine's devices for the body, once they are free and nothing is missing.

    Args:
        planned: what will run, and where.
        reset: reset the boards with tt-smi first.
        end_holders: end processes that have the device open, by SIGINT and SIGTERM.

    Raises:
        NotReady: a check failed, another run has the device, or it could not be freed or reset.
    """
    with held(planned.machine.devices):
        if planned.machine.devices:
            free_devices(planned, progress, end=end_holders, needed=reset or planned.for_tracy)
        if reset:
            reset_boards(planned.machine, planned.env, progress)
        stop_at_failed(_checks(planned), progress)
        yield


def _checks(planned: PlannedRun) -> tuple[Check, ...]:
    """The doctor's checks that can stop this run; Tracy's take a second, others need them not."""
    if planned.for_tracy:
        return doctor(planned)
    few = (host.interpreter, host.torch, host.devices, host.chips, host.space)
    return tuple(check for one in CHECKS if one in few for check in one(planned))


def stop_at_failed(checks: Sequence[Check], progress: Progress) -> None:
    """Raise for the first failed check, naming the others; say the ones that do not stop a run.

    Raises:
        NotReady: a check failed.
    """
    bad = failed(checks)
    for check in bad:
        if check.name in NOT_FATAL:
            progress.note(f"{check.text}: {check.remedy}")
    fatal = [check for check in bad if check.name not in NOT_FATAL]
    if fatal:
        also = "".join(f"\nalso: {check.text}\n  {check.remedy}" for check in fatal[1:])
        raise NotReady(f"not ready: {fatal[0].text}{also}", fatal[0].remedy)


def free_devices(planned: PlannedRun, progress: Progress, *, end: bool, needed: bool) -> None:
    """Show the processes that have a device open; end them when that was asked for.

    Args:
        end: send them SIGINT, then SIGTERM.
        needed: the run cannot begin while one has it.

    Raises:
        NotReady: the device is needed, and a process keeps it.
    """
    holders = planned.holders()
    if not holders:
        return
    if needed and not end:
        raise NotReady(
            "not ready: " + "\n".join(map(describe, holders)),
            f"Wait for it; or, if it is left over, end it: kill -INT {_pids(holders)}, or run with "
            "--yes, which sends SIGINT, then SIGTERM, never SIGKILL.",
        )
    for holder in holders:
        progress.note(describe(holder))
    if end:
        left = end_gently([holder.pid for holder in holders])
        ended = [str(holder.pid) for holder in holders if holder.pid not in left]
        if ended:
            progress.note(f"ended {' '.join(ended)}")
        holders = tuple(holder for holder in holders if holder.pid in left)
        if holders:
            raise NotReady(
                f"SIGINT and SIGTERM did not end what holds the device: {_pids(holders)}",
                "Ask its owner. Never use kill -9: it leaves the device in a bad state.",
            )


def _pids(holders: Sequence[Holder]) -> str:
    return " ".join(str(holder.pid) for holder in holders)


def reset_boards(machine: Machine, env: Mapping[str, str], progress: Progress) -> None:
    """Reset all boards and wait until they answer.

    Raises:
        NotReady: there is no tt-smi, or the boards did not come back.
    """
    # A tt-smi beside an interpreter that came with the project is the project's as well.
    smi = find_smi(machine.python if machine.asked else None, env)
    if smi is None:
        raise NotReady(
            "tt-smi was not found: no board can be reset", f"{machine.python} -m pip install tt-smi"
        )
    progress.stage("reset", f"the boards with {smi} -r")
    waited = reset(smi, env, expected=max(1, len(machine.devices)))
    progress.note(f"the boards are back, {waited:.1f} s after the reset")


def programs_per_step(script: Path, place: Path) -> int | None:
    """Device programs in a step of a script, as its newest run in a folder of runs counted them."""
    from instrumentor_analysis.shared.documents import read

    newest: tuple[float, int] | None = None
    for path in place.glob("*/summary.json"):
        try:
            summary = read(path)
            if summary["run"]["script"] != str(script):
                continue
            # Of torch on the CPU it is the number of its operators, none of them a program.
            count = summary.get("op_count") if summary.get("profiler") == "tracy" else None
            when = path.stat().st_mtime
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            continue
        if isinstance(count, int) and count > 0 and (newest is None or when > newest[0]):
            newest = when, count
    return newest[1] if newest else None
