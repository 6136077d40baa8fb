"""What the hardware could do: peaks per architecture, from a data table.

An op is held against the cores that it *used* and the DRAM of the whole chip, as in
tt-perf-report 1.4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.load.cells import clean
from instrumentor_analysis.load.schema import SIMULATED
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import kept
from instrumentor_analysis.shared.errors import BadOption

if TYPE_CHECKING:
    from instrumentor_analysis.load.ops_csv import Ops
    from instrumentor_analysis.load.table import Floats

#: Architecture of files that name none (formats v1 and v2).
DEFAULT = "wormhole"
#: An op at this share of a peak is bound by it, percent.
#: (tt-perf-report's limit).
BOUND_PERCENT = 65.0
#: A core count above this is a corrupt cell.
MAX_CORES = 1 << 20
#: Characters that are shown of the name of an unknown architecture, which the file gives.
_LONGEST_NAME = 32


class Architecture(Struct, frozen=True):
    """Peaks of one chip.

    Attributes:
        name: as in the table.
        worker_cores: cores of an op whose row does not say how many it had; 0 when unknown.
        dram_sharded_matmul_cores: cores that a DRAM-sharded matmul runs on, whatever its row says;
            0 when unknown.
        dram_gb_s: DRAM bandwidth, 10^9 bytes a second; NaN when unknown.
        tflops_per_core: by math fidelity, 10^12 FLOPs a second; empty when unknown.
        chip_cores: worker cores of each chip of a file, the most that a row of it reports; empty
            where the file does not say it of all of them.
    """

    name: str
    worker_cores: int
    dram_sharded_matmul_cores: int
    dram_gb_s: float
    tflops_per_core: Mapping[str, float]
    chip_cores: tuple[int, ...] = ()

    @property
    def has_peaks(self) -> bool:
        """There is something to hold ops against: the table has the architecture."""
        return bool(self.tflops_per_core)


def known() -> tuple[str, ...]:
    """All names and aliases that :func:`architecture` understands."""
    table = kept("architectures")
    return (*table["architectures"], *table["aliases"])


def _in_table(name: str) -> bool:
    return name.lower() in known()


def architecture(name: str) -> Architecture:
    """Look an architecture up by name or alias, in any case.

    Raises:
        BadOption: the name is unknown.
    """
    if not _in_table(name):
        raise BadOption(f"unknown architecture {name!r}", f"Known: {', '.join(known())}")
    table = kept("architectures")
    wanted = table["aliases"].get(name.lower(), name.lower())
    entry = dict(table["architectures"][wanted])
    peaks = {k: over / under for k, (over, under) in entry.pop("tflops_per_core").items()}
    return Architecture(name=wanted, tflops_per_core=peaks, **entry)


def whole_cores(counts: Floats) -> Floats:
    """Core counts as written, those that cannot be one (fractions, 0, absurd) as NaN."""
    import numpy as np

    return np.where((counts > 0) & (counts <= MAX_CORES) & (counts % 1 == 0), counts, np.nan)


def resolve(ops: Ops, override: str | None = None) -> tuple[Architecture, tuple[Caveat, ...]]:
    """The architecture of a file: the option, else its DEVICE ARCH, else wormhole, announced.

    :data:`SIMULATED` is an option, too: without peaks.

    One that the table does not have is without peaks, announced too: times need none. The largest
    core budget that any row reports stands in for rows that report none.

    Raises:
        BadOption: the option names an unknown architecture.
    """
    notes: list[Caveat] = []
    if override == SIMULATED:
        return Architecture(SIMULATED, 0, 0, float("nan"), {}), ()
    name = override
    if name is None and "device_arch" in ops.frame:
        cells = ops.frame["device_arch"].distinct()
        named = [text for text in (clean(cell).strip()[:_LONGEST_NAME] for cell in cells) if text]
        if named:
            name = named[0]
        if len(named) > 1:
            text = f"The file names several architectures ({', '.join(named)}); {name} is used."
            notes.append(Caveat("architecture", text))
    if name is None:
        name = DEFAULT
        text = (
            f"The file names no architecture; {DEFAULT} is assumed. --arch changes it (--arch "
            f"{SIMULATED}, if a simulator made the file)."
        )
        notes.append(Caveat("architecture", text))
    if override is not None or _in_table(name):
        found = architecture(name)
    else:
        found = Architecture(name, 0, 0, float("nan"), {})
        text = (
            f"No peaks are known for {name}, so utilisation is blank. --arch NAME compares the ops "
            "with the peaks of another architecture."
        )
        notes.append(Caveat("architecture", text))
    if ops.format == "v2.1":
        from instrumentor_analysis.load.ops_csv import device_ids
        from instrumentor_analysis.load.table import distinct

        budgets = whole_cores(ops.frame["available_core_count"])
        ids, told = device_ids(ops.frame), budgets == budgets
        if told.any():
            found = replace(found, worker_cores=int(budgets[told].max()))
            # Chips of one mesh may differ: of a harvested one more cores are switched off.
            each = [budgets[(ids == chip) & told] for chip in distinct(ids)]
            if all(map(len, each)):
                found = replace(found, chip_cores=tuple(int(of_chip.max()) for of_chip in each))
    return found, tuple(notes)
