"""Architectures: the table, aliases, and where a file's comes from."""

from __future__ import annotations

import numpy as np
import pytest

from instrumentor_analysis.load.ops_csv import Ops, load
from instrumentor_analysis.ops.per_op import per_op
from instrumentor_analysis.ops.roofline import architecture, known, resolve
from instrumentor_analysis.shared.errors import BadOption
from tests.analysis.ops_rows import FIXTURES, frame_of, host_op, matmul, op
from tests.warned import texts


@pytest.mark.parametrize(
    ("name", "cores", "dram", "hifi4", "hifi3", "hifi2", "lofi"),
    [
        ("wormhole", 64, 288, 1.028, 1.370, 2.056, 3.639),
        ("blackhole", 110, 512, 1.382, 1.843, 2.765, 5.530),
        ("blackhole_p100", 110, 448, 1.382, 1.843, 2.765, 5.530),
        ("bh20", 20, 512, 1.382, 1.843, 2.765, 5.530),
        ("n1", 20, 120, 0.666, 0.887, 1.331, 2.662),
    ],
)
def test_peaks(
    name: str, cores: int, dram: float, hifi4: float, hifi3: float, hifi2: float, lofi: float
) -> None:
    arch = architecture(name)
    assert (arch.worker_cores, arch.dram_gb_s) == (cores, dram)
    peaks = [round(arch.tflops_per_core[f], 3) for f in ("HiFi4", "HiFi3", "HiFi2", "LoFi")]
    assert peaks == pytest.approx([hifi4, hifi3, hifi2, lofi], abs=1e-3)


def test_names_in_any_case_and_by_card() -> None:
    assert architecture("Wormhole_B0") == architecture("n300") == architecture("wormhole")
    assert architecture("P150A").name == "blackhole"
    assert architecture("N1").name == "n1"
    for name in known():
        architecture(name)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BadOption, match="'quasar'") as caught:
        architecture("quasar")
    assert "wormhole" in caught.value.hint


ASSUMED = (
    "The file names no architecture; wormhole is assumed. --arch changes it (--arch simulated, if "
    "a simulator made the file)."
)
UNKNOWN = (
    "No peaks are known for quasar, so utilisation is blank. --arch NAME compares the ops with the "
    "peaks of another architecture."
)


def of_archs(*names: str, cores: str = "64") -> Ops:
    """A file whose rows name these architectures, and a core budget."""
    rows = [op() | {"DEVICE ARCH": name, "AVAILABLE WORKER CORE COUNT": cores} for name in names]
    return Ops(frame_of(*rows), "v2.1", ())


@pytest.mark.parametrize(
    ("named", "override", "resolved", "notes"),
    [
        (("wormhole_b0",), None, ("wormhole", 48, True), []),
        (("wormhole_b0",), "p100", ("blackhole_p100", 48, True), []),
        (("",), None, ("wormhole", 48, True), [ASSUMED]),
        (("wormhole_b0", "blackhole"), None, ("wormhole_b0", 48, True),
         ["The file names several architectures (wormhole_b0, blackhole); wormhole_b0 is used."]),
        (("quasar",), None, ("quasar", 48, False), [UNKNOWN]),
        (("quasar",), "p100", ("blackhole_p100", 48, True), []),
    ],
)  # fmt: skip
def test_the_architecture_is_the_options_else_the_files(
    named: tuple[str, ...],
    override: str | None,
    resolved: tuple[str, int, bool],
    notes: list[str],
) -> None:
    arch, told = resolve(of_archs(*named, cores="48"), override)
    name, cores, peaks = resolved
    # A name of a board is that of its chip.
    assert arch.name == (architecture(name).name if peaks else name)
    assert (arch.worker_cores, arch.has_peaks) == (cores, peaks)
    assert texts(told) == notes


def test_only_the_newest_format_says_how_many_cores_there_are() -> None:
    arch, notes = resolve(load(FIXTURES / "v2_plain.csv"))
    assert arch == architecture("wormhole")
    assert texts(notes) == [ASSUMED]
    with pytest.raises(BadOption, match="'quasar'"):
        resolve(of_archs("wormhole_b0"), "quasar")


def test_the_name_of_an_unknown_architecture_is_short_and_clean() -> None:
    arch, _ = resolve(of_archs("qua\x1b[31msar" + "x" * 99))
    assert arch.name == "qua[31msar" + "x" * 22


@pytest.mark.parametrize("cores", ["64", ""])
def test_ops_without_peaks_have_rates_and_no_utilisation(cores: str) -> None:
    sharded = "'program_config': 'MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(x=1)'"
    rows = [matmul(512, 512, 512, 60.0), matmul(64, 64, 64, 9.0, attributes=sharded), host_op()]
    more = {"DEVICE ARCH": "quasar", "AVAILABLE WORKER CORE COUNT": cores}
    file = Ops(frame_of(*(row | more for row in rows)), "v2.1", ())
    ops = per_op(file.frame, resolve(file)[0])
    assert ops["bound"].tolist() == ["", "", "HOST"]
    for name in ("dram_percent", "flops_percent", "peak_flops"):
        assert np.isnan(ops[name]).all()
    assert ops["tflops"][0] == pytest.approx(2 * 512**3 / 60e-6 / 1e12)
    assert ops["dram_gb_s"][0] == pytest.approx(3 * 512 * 512 * 2 / 60e-6 / 1e9)
    # On how many cores a DRAM-sharded matmul runs is the architecture's.
    assert ops["cores"][0] == 64 and np.isnan(ops["cores"][1])
    assert np.isnan(ops["available_cores"]).any() != bool(cores)
