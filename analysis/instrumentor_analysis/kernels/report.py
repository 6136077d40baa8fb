"""A run folder of ``instrument kernel run`` (or a bare log) -> everything that is told about it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from instrumentor_analysis.kernels.device_log import DeviceLog, read_device_log
from instrumentor_analysis.kernels.facts import L1_BYTES, Facts, gather
from instrumentor_analysis.kernels.findings import GOALS, Finding, bottleneck, findings, used_cores
from instrumentor_analysis.kernels.log import parse_log
from instrumentor_analysis.kernels.run_facts import run_facts
from instrumentor_analysis.kernels.simulated_report import (
    SimulatedReport,
    is_simulated,
    simulated_report,
)
from instrumentor_analysis.shared.documents import parsed, plain
from instrumentor_analysis.shared.errors import NothingMeasured
from instrumentor_analysis.shared.files import read_text

SCHEMA = "instrument-kernel-summary/1"
DEVICE_LOG = "profile_log_device.csv"
RECORD = "kernel.jsonl"
LOG = "run.log"
#: Parts of the log that the document shows as they were read.
_OF_THE_LOG = ("programs", "threads", "roofline", "buffers", "pipes", "signposts", "sections")


class KernelReport(Struct, frozen=True):
    """A measured invocation with its verdict.

    Attributes:
        limit: the bottleneck; None when the mode does not tell.
        source: lines of the user's file, for the heat map; empty when it is gone.
        folder: where it came from.
    """

    facts: Facts
    found: tuple[Finding, ...]
    limit: Finding | None
    warnings: tuple[str, ...]
    source: tuple[str, ...]
    folder: Path
    simulated: bool = False

    @property
    def wall_us(self) -> float | None:
        """Device time of the kernel, microseconds: the ground truth."""
        return self.facts.duration_us

    @property
    def wrong(self) -> Finding | None:
        """Of a run on a device only its validation says whether it is right."""
        return None

    @property
    def rerun(self) -> str:
        """The command for the whole auto-profile by hand."""
        return str(self.facts.run.get("rerun") or "")

    def to_json(self) -> dict[str, Any]:
        """The document `instrument-kernel-summary/1`."""
        facts, run, program = self.facts, self.facts.run, self.facts.program
        used, available = used_cores(facts), facts.available_cores
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "name": run.get("name"),
            "script": run.get("script"),
            "kernel": facts.kernel,
            "mode": facts.mode,
            "invocation": run.get("invocation"),
            "validated": run.get("validated"),
            "wall_time_us": facts.duration_us,
            "duration_cycles": program.duration_cycles if program else None,
            "arch": facts.machine.arch or None,
            "mhz": facts.machine.mhz,
            "arguments": [{**plain(each), "bytes": each.bytes} for each in facts.arguments],
            "grid": program.grid if program else None,
            "grid_asked": run.get("grid"),
            "cores_used": used,
            "cores_available": available,
            "core_utilization": used / available if used and available else None,
            "program": program,
            "dram_bytes": facts.dram_bytes,
            "dram_floor_us": facts.floor_us,
            "peak_gb_s": facts.peak_gb_s,
            "lines": facts.lines,
            **{name: getattr(facts.log, name) for name in _OF_THE_LOG},
            "blocks": facts.blocks,
            "block_bytes": facts.block_bytes,
            "l1_bytes": L1_BYTES,
            "chips": facts.chips,
            "production_shapes": facts.production,
            "bottleneck": _finding(self.limit) if self.limit else None,
            "findings": [_finding(finding) for finding in self.found],
            "warnings": list(self.warnings),
            "rerun": self.rerun or None,
        }
        made: dict[str, Any] = plain(document)
        return made


#: What the folder of a kernel's run may say.
AnyReport: TypeAlias = KernelReport | SimulatedReport


def _finding(finding: Finding) -> dict[str, Any]:
    return {**plain(finding), "goal_text": GOALS[finding.goal], "worth": finding.worth}


def report(folder: Path) -> AnyReport:
    """Read a run folder again, of a run on a device or a simulated one.

    Raises:
        NothingMeasured: it holds no log, or nothing of tt-lang's output is in it.
        DamagedFile: its device log is none.
    """
    if is_simulated(folder):
        return simulated_report(folder)
    log, device = folder / LOG, folder / DEVICE_LOG
    if not log.is_file():
        raise NothingMeasured(
            f"{folder}: no run.log", "Give a folder that `instrument kernel run` wrote."
        )
    return _report(
        log,
        read_device_log(device) if device.is_file() else None,
        run_facts(folder),
        read_records(folder / RECORD),
    )


def report_of_log(log: Path) -> AnyReport:
    """Read a log that was written by hand, or that of a simulated run, whose folder tells.

    Raises:
        NothingMeasured: nothing of tt-lang's output is in it.
    """
    if log.name == LOG and is_simulated(log.parent):
        return simulated_report(log.parent)
    return _report(log, None, {"name": log.stem}, [])


def _report(
    path: Path,
    device: DeviceLog | None,
    run: Mapping[str, Any],
    records: list[dict[str, Any]],
) -> KernelReport:
    folder = path.parent
    try:
        text = read_text(path, "replace")
    except OSError as error:
        raise NothingMeasured(f"{path}: cannot be read: {error.strerror}") from error
    log = parse_log(text)
    if not log.sections and (device is None or not device.zones):
        remedies = (remedy for words, remedy in _NOTHING if words in text)
        raise NothingMeasured(
            f"{folder}: none of tt-lang's profiles is in the log",
            next(remedies, "See run.log; the profilers print only on hardware."),
        )
    facts = gather(log, device, run, records)
    found = findings(facts)
    warnings = [*run.get("warnings", ()), *log.warnings]
    if device is not None and device.skipped:
        warnings.append(
            f"{DEVICE_LOG}: {len(device.skipped)} rows cannot be read, the first at line "
            f"{device.skipped[0]}"
        )
    return KernelReport(
        facts,
        found,
        bottleneck(facts, found),
        tuple(dict.fromkeys(warnings)),
        # The kernel's file as it was measured.
        tuple(str(run.get("source_text") or "").splitlines()),
        folder,
    )


#: What tt-lang prints when there is nothing to read, and what helps.
_NOTHING = (
    ("TT_METAL_HOME not set", "Set TT_METAL_HOME to the tt-metal checkout: the profilers need it."),
    ("requires TT_METAL_HOME", "Set TT_METAL_HOME to the tt-metal checkout."),
    ("Profile CSV not found", "The device profiler wrote nothing: is this a build with Tracy?"),
    ("No signpost results found", "The kernel ran without markers: was it taken from a cache?"),
    (
        "No user-defined signpost zones found",
        'Mark regions of the kernel with ttl.signpost("name"), or use --mode auto-profile.',
    ),
)


def read_records(path: Path) -> list[dict[str, Any]]:
    """The gate's events; a half-written last line is left out."""
    text = read_text(path, "replace") if path.is_file() else ""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            value = parsed(line)
            found += [value] if isinstance(value, dict) else []
    return found
