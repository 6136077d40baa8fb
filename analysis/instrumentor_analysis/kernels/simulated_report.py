"""A run folder of a simulated kernel -> what was counted, what to change, and the floor of a chip.

The floor is a model: no kernel that moves these bytes and does these products is faster on that
chip. Nothing else about a simulated kernel is a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor_analysis.kernels.findings import GOALS, Finding
from instrumentor_analysis.kernels.run_facts import run_facts
from instrumentor_analysis.kernels.simulated_findings import (
    CORRECT,
    Simulated,
    simulated_findings,
)
from instrumentor_analysis.kernels.simulation import FILE, Simulation, read_simulation
from instrumentor_analysis.ops.roofline import Architecture, architecture
from instrumentor_analysis.shared.documents import plain

SCHEMA = "instrument-kernel-simulation/1"
#: What a model's products are counted at: tt-lang's kernels keep full fidelity.
FIDELITY = "HiFi4"


class Floor(Struct, frozen=True):
    """The least that a chip can take: a model.

    Attributes:
        dram_us: the bytes at the chip's whole bandwidth.
        compute_us: the products at the peak of the cores that the grid uses.
    """

    chip: str
    dram_us: float
    compute_us: float

    @property
    def us(self) -> float:
        """The larger of the two, which overlap at best."""
        return max(self.dram_us, self.compute_us)

    @property
    def bound(self) -> str:
        """What it comes from: memory or compute."""
        return "memory" if self.dram_us >= self.compute_us else "compute"


class SimulatedReport(Struct, frozen=True):
    """A simulated invocation with its verdict.

    Attributes:
        limit: the first of the findings that limits the kernel.
        folder: where it came from.
    """

    facts: Simulated
    chip: Architecture
    found: tuple[Finding, ...]
    limit: Finding | None
    warnings: tuple[str, ...]
    folder: Path
    simulated: bool = True

    @property
    def simulation(self) -> Simulation:
        """What was counted."""
        return self.facts.simulation

    @property
    def wrong(self) -> Finding | None:
        """Why the kernel is not right, or fits no node; None where nothing says so."""
        return self.limit if self.limit is not None and self.limit.goal == CORRECT else None

    @property
    def floor(self) -> Floor | None:
        """The floor of a whole invocation on the named chip."""
        counted = self.simulation
        if not counted.complete or not self.chip.has_peaks:
            return None
        cores = min(counted.nodes, self.chip.worker_cores) or 1
        flops = sum(amount for _, amount in counted.flops)
        peak = cores * self.chip.tflops_per_core[FIDELITY] * 1e12
        bytes_a_us = self.chip.dram_gb_s * 1e3
        return Floor(self.chip.name, counted.dram_bytes / bytes_a_us, flops / peak * 1e6)

    def to_json(self) -> dict[str, Any]:
        """The document `instrument-kernel-simulation/1`."""
        run, counted, floor = self.facts.run, self.simulation, self.floor
        rows = counted.moved.values()
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "name": run.get("name"),
            "script": run.get("script"),
            "kernel": run.get("kernel"),
            "simulated": True,
            "invocation": run.get("invocation"),
            "validated": run.get("validated"),
            "wall_time_us": None,
            "complete": counted.complete,
            "problem": counted.problem,
            "grid": list(counted.grid),
            "idle_nodes": [counted.coordinates(node) for node in counted.idle],
            **counted.measures,
            "tensors": counted.tensors,
            "moved": [{**_columns(row), "times": counted.times(row)} for row in rows],
            "buffers": counted.buffers,
            "uses": [_columns(row) for row in counted.blocks],
            "written": counted.written,
            "pipes": [_columns(row) for row in counted.pipes],
            "l1_bytes": counted.l1_bytes,
            "l1_limit_bytes": counted.l1_limit_bytes,
            "matrix_flops": sum(amount for _, amount in counted.flops),
            "floor_model": {**plain(floor), "us": floor.us, "bound": floor.bound}
            if floor
            else None,
            "bottleneck": _finding(self.limit) if self.limit else None,
            "findings": [_finding(finding) for finding in self.found],
            "warnings": list(self.warnings),
        }
        made: dict[str, Any] = plain(document)
        return made


def _columns(row: Struct) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


def _finding(finding: Finding) -> dict[str, Any]:
    return {**plain(finding), "goal_text": GOALS[finding.goal]}


def is_simulated(folder: Path) -> bool:
    """Whether a run folder is one of a simulated kernel."""
    return (folder / FILE).is_file()


def simulated_report(folder: Path) -> SimulatedReport:
    """Read the folder of a simulated run.

    Raises:
        NothingMeasured: nothing was counted.
        BadOption: the chip is not known.
    """
    counted = read_simulation(folder)
    run = run_facts(folder)
    chip = architecture(str(run.get("arch") or "wormhole"))
    facts = Simulated(counted, run, chip.worker_cores)
    found = simulated_findings(facts)
    limit = next((finding for finding in found if finding.limits), None)
    warnings = [str(each) for each in run.get("warnings", ())]
    if not counted.complete and counted.problem is None:
        warnings.append("the run ended before the kernel did: all counts are those until then")
    if not counted.arithmetic:
        warnings.append("nothing was computed (--no-arithmetic): results say nothing")
    elif counted.complete and run.get("validation") is None and not facts.approved:
        warnings.append(
            "nothing checks the result: give --validate COMMAND or --reference FILE, or assert it "
            "behind the call"
        )
    devices = max((tensor.devices for tensor in counted.tensors.values()), default=1)
    if devices > 1:
        warnings.append(
            f"tensors are sharded over {devices} devices, which the simulator runs as one: counts "
            "and nodes are those of all of them"
        )
    return SimulatedReport(facts, chip, found, limit, tuple(warnings), folder)
