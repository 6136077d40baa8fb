"""Architectures: the table, aliases, and where a file's comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instrumentor_analysis.device import per_op
from instrumentor_analysis.errors import BadOption
from instrumentor_analysis.load import load
from instrumentor_analysis.roofline import architecture, known, resolve
from tests.analysis.ops_rows import FIXTURES, Row, host_op, matmul, op, text, write
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


def test_the_file_names_it_and_the_largest_grid() -> None:
    arch, notes = resolve(load(FIXTURES / "sub_devices.csv"))
    assert (arch.name, arch.worker_cores) == ("wormhole", 64)
    assert notes == ()


def test_a_file_without_one_is_assumed_to_be_wormhole_and_says_so() -> None:
    arch, notes = resolve(load(FIXTURES / "v2_plain.csv"))
    assert arch == architecture("wormhole")
    assert "assumed" in notes[0].message
    arch, notes = resolve(load(FIXTURES / "v2_plain.csv"), "p100")
    assert (arch.name, notes) == ("blackhole_p100", ())


def test_several_architectures_are_announced(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", [op(), op() | {"DEVICE ARCH": "blackhole"}])
    arch, notes = resolve(load(path))
    assert arch.name == "wormhole"
    assert "several architectures" in notes[0].message


def written(folder: Path, rows: list[Row], arch: str = "quasar", cores: str = "64") -> Path:
    """A file whose rows name an architecture and a core budget."""
    more = {"DEVICE ARCH": arch, "AVAILABLE WORKER CORE COUNT": cores}
    (folder / "ops.csv").write_text(text([row | more for row in rows]), encoding="utf-8")
    return folder / "ops.csv"


def test_a_file_of_an_unknown_architecture_has_no_peaks_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, [op()])
    arch, notes = resolve(load(path))
    assert (arch.name, arch.worker_cores, arch.has_peaks) == ("quasar", 64, False)
    assert tuple(texts(notes)) == (
        "quasar: no peaks known for this architecture: utilisation is blank (--arch NAME compares "
        "the ops with the peaks of another one)",
    )
    arch, notes = resolve(load(path), "p100")
    assert (arch.name, arch.has_peaks, notes) == ("blackhole_p100", True, ())
    with pytest.raises(BadOption, match="'quasar'"):
        resolve(load(path), "quasar")


def test_the_name_of_an_unknown_architecture_is_short_and_clean(tmp_path: Path) -> None:
    arch, _ = resolve(load(written(tmp_path, [op()], "qua\x1b[31msar" + "x" * 99)))
    assert arch.name == "qua[31msar" + "x" * 22
    arch, notes = resolve(load(written(tmp_path, [op()], "  ")))
    assert arch.name == "wormhole" and "assumed" in notes[0].message


@pytest.mark.parametrize("cores", ["64", ""])
def test_ops_without_peaks_have_rates_and_no_utilisation(tmp_path: Path, cores: str) -> None:
    sharded = "'program_config': 'MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(x=1)'"
    rows = [matmul(512, 512, 512, 60.0), matmul(64, 64, 64, 9.0, attributes=sharded), host_op()]
    file = load(written(tmp_path, rows, cores=cores))
    ops = per_op(file.frame, resolve(file)[0])
    assert ops["bound"].tolist() == ["", "", "HOST"]
    for name in ("dram_percent", "flops_percent", "peak_flops"):
        assert np.isnan(ops[name]).all()
    assert ops["tflops"][0] == pytest.approx(2 * 512**3 / 60e-6 / 1e12)
    assert ops["dram_gb_s"][0] == pytest.approx(3 * 512 * 512 * 2 / 60e-6 / 1e9)
    # On how many cores a DRAM-sharded matmul runs is the architecture's.
    assert ops["cores"][0] == 64 and np.isnan(ops["cores"][1])
    assert np.isnan(ops["available_cores"]).any() != bool(cores)
