"""Which profiler, and the reason that is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.machine.environment import Machine
from instrumentor.machine.interpreter import Interpreter, Package
from instrumentor.run.profilers import PROFILERS, choose
from instrumentor.shared.errors import NotReady, UsageError


def machine(*packages: str, devices: int = 0) -> Machine:
    return Machine(
        interpreter=Interpreter(Path("/env/bin/python"), "--python"),
        python_version="3.11.4",
        packages={name: Package(name, "1.0") for name in packages},
        devices=tuple(Path(f"/dev/tenstorrent/{number}") for number in range(devices)),
    )


@pytest.mark.parametrize(
    ("there", "name", "reason"),
    [
        (machine("tracy", "torch", devices=1), "tracy", "/dev/tenstorrent/0"),
        (machine("tracy", "torch"), "torch", "no Tenstorrent device"),
        (machine("torch", devices=1), "torch", "no tracy package"),
        (machine(), "wallclock", "no torch in /env/bin/python"),
    ],
)
def test_auto_says_why(there: Machine, name: str, reason: str) -> None:
    profiler, why = choose("auto", there)
    assert profiler.name == name
    assert why.startswith(f"{name}: ")
    assert reason in why
    assert "\n" not in why


def test_what_was_asked_for_wins() -> None:
    there = machine("tracy", "torch", devices=1)
    assert [choose(p.name, there)[0] for p in PROFILERS] == list(PROFILERS)


@pytest.mark.parametrize("name", ["tracy", "torch"])
def test_asking_for_what_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(NotReady) as raised:
        choose(name, machine())
    assert "--python" in raised.value.hint


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        choose("perf", machine())
    assert raised.value.hint == "Use auto, tracy, torch, wallclock."
