"""Run scripts under the recording stand-ins and hold the order of events against the rules.

The rules are those of a correct instrumentation: every backward inside exactly one region, the
device waited for before the clock is read, nothing read inside, an early stop behind a whole
optimizer step and nothing after it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instrumentor.plan import Plan
from tests.warned import texts

STANDINS = Path(__file__).resolve().parent / "standins" / "recording"
STEPS = 5
WORK = ("forward", "backward", "optimizer", "item", "validate", "checkpoint", "debugger")


@dataclass(frozen=True)
class Trace:
    """What happened in one script, in order; `error` is a traceback, or None."""

    events: tuple[str, ...]
    error: str | None

    def only(self, *kinds: str) -> list[str]:
        """The events of some kinds, in order."""
        return [e for e in self.events if e.split(" ", 1)[0] in kinds]


class Recorder:
    """A process with the stand-ins that runs one script after the other."""

    def __init__(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("INSTRUMENT_")}
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", str(STANDINS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(
        self, code: bytes | None = None, path: Path | None = None, device: str = "xla"
    ) -> Trace:
        """Run a script, given by its text or its path."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request: dict[str, Any] = {"device": device, "steps": STEPS}
        if code is not None:
            request["code"] = code.decode("latin-1")
        if path is not None:
            request["path"] = str(path)
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Trace(tuple(answer["events"]), answer["error"])

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@dataclass(frozen=True)
class Expectation:
    """What the plan says about a script, as far as the order of events shows it.

    Attributes:
        steps: samples asked for.
        device: type of the device that tensors lie on.
        reads_inside: the plan's warnings name host reads that stay inside the region.
        validates: validation was kept.
        saves: a checkpoint was kept.
        syncs_inside: the script syncs more often than once between backward and barrier.
    """

    steps: int = STEPS
    device: str = "xla"
    reads_inside: bool = False
    validates: bool = False
    saves: bool = False
    syncs_inside: bool = False


def expectation(
    plan: Plan, *, device: str = "xla", validates: bool = False, syncs_inside: bool = False
) -> Expectation:
    """What may happen by the plan's own words."""
    words = " ".join(texts(plan.warnings))
    validation, saves = (plan.explanation[f"skipped_{n}"] for n in ("validation", "checkpoints"))
    return Expectation(
        device=device,
        reads_inside="host-read-inside" in {each.kind for each in plan.warnings}
        or "between the micro-steps" in words,
        validates=validates or "Validation is kept" in words or not validation,
        saves="Checkpoint is kept" in words or not saves,
        syncs_inside=syncs_inside,
    )


def violations(trace: Trace, expected: Expectation) -> list[str]:
    """Every broken rule of one instrumented run, as sentences."""
    broken: list[str] = []
    if trace.error is not None:
        broken.append(f"the script failed: {trace.error}")
    regions, outside = _regions(trace, broken)
    for name, inside in regions:
        _check_region(name, inside, expected, broken)
    for kind in ("forward", "backward"):
        if kind in outside:
            broken.append(f"{kind} outside of a region")
    if not expected.validates and "validate" in trace.events:
        broken.append("a validation ran")
    if not expected.saves and "checkpoint" in trace.events:
        broken.append("a checkpoint was written")
    if "cache clear" in trace.events:
        broken.append("the computation cache was cleared")
    _check_stop(trace, expected, broken)
    return broken


def _regions(trace: Trace, broken: list[str]) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Completed regions with the events inside, and the events outside of all regions."""
    regions: list[tuple[str, list[str]]] = []
    outside: list[str] = []
    name: str | None = None
    inside: list[str] = []
    seen: set[str] = set()
    for event in trace.events:
        kind, _, rest = event.partition(" ")
        match = re.fullmatch(r"(step_\w+?)_(start|end|cancelled)", rest)
        if kind != "signpost" or match is None:
            (outside if name is None else inside).append(event)
            continue
        if match[2] == "start":
            if name is not None:
                broken.append(f"{rest} inside {name}")
            name, inside = match[1], []
        elif match[1] != name:
            broken.append(f"{rest} without its start")
        else:
            if match[2] == "end":
                if name in seen:
                    broken.append(f"{name} twice")
                seen.add(name)
                regions.append((name, inside))
            name = None
    expected = ["step_compile"] + [f"step_steady_{n}" for n in range(1, len(regions))]
    if [r[0] for r in regions] != expected:
        broken.append(f"regions are {[r[0] for r in regions]}")
    if name is not None:
        broken.append(f"{name} stays open")
    return regions, outside


def _check_region(name: str, inside: list[str], expected: Expectation, broken: list[str]) -> None:
    if "backward" not in inside or "forward" not in inside:
        broken.append(f"{name} has no forward and backward: {inside}")
        return
    if "item" in inside and not expected.reads_inside:
        broken.append(f"{name}: a host read inside")
    for unwanted in ("validate", "checkpoint"):
        if unwanted in inside:
            broken.append(f"{name}: {unwanted} inside")
    if inside[0] != "clock":
        broken.append(f"{name}: the clock is not opened first: {inside[:2]}")
    if inside[-1] != "clock":
        broken.append(f"{name}: something runs between clock and signpost: {inside[-2:]}")
    last = len(inside) - 1 - inside[::-1].index("backward")
    tail = inside[last + 1 :]
    if expected.device == "xla":
        if tail[-2:] != ["wait", "clock"]:
            broken.append(f"{name}: the device is not waited for: {tail}")
        if "sync" not in tail:
            broken.append(f"{name}: nothing cuts the graph before the wait: {tail}")
        if tail.count("sync") > 1 and not expected.syncs_inside:
            broken.append(f"{name}: a second sync: {tail}")
    elif expected.device == "cuda" and tail[-2:] != ["wait", "clock"]:
        broken.append(f"{name}: the device is not waited for: {tail}")
    elif expected.device == "cpu" and ("sync" in tail and not expected.syncs_inside):
        broken.append(f"{name}: a sync on the CPU: {tail}")


def _check_stop(trace: Trace, expected: Expectation, broken: list[str]) -> None:
    """The stop stands at the first optimizer step with enough samples; then only `finally`."""
    samples = 0
    inside = stepped_inside = due = False
    for position, event in enumerate(trace.events):
        if event == "signpost benchmark_complete":
            if not due:
                broken.append(f"stopped after {samples} samples, not at the end of a step")
            rest = [e for e in trace.events[position + 1 :] if e.split(" ")[0] in WORK]
            if rest:
                broken.append(f"after the stop: {rest[:5]}")
            return
        if re.fullmatch(r"signpost step_\w+_(start|end|cancelled)", event):
            inside = event.endswith("_start")
            samples += event.endswith("_end")
            due |= event.endswith("_end") and stepped_inside and samples >= expected.steps
            stepped_inside = False
        elif event == "optimizer":
            stepped_inside = inside
            due |= not inside and samples >= expected.steps
        elif event == "forward" and due:
            broken.append(f"a step began although {samples} samples and an optimizer step are done")
            return
    broken.append(f"never stopped: {samples} samples")


def shown(trace: Trace) -> list[str]:
    """What the script itself showed."""
    return trace.only("print")


def is_prefix(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether `second` begins with `first`."""
    return list(second[: len(first)]) == list(first)
