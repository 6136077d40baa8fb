"""Architectures: the table, aliases, and where a file's comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.errors import BadOption
from analysis.load import load
from analysis.roofline import architecture, known, resolve
from tests.analysis.ops_rows import FIXTURES, op, text


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
    assert "assumed" in notes[0]
    arch, notes = resolve(load(FIXTURES / "v2_plain.csv"), "p100")
    assert (arch.name, notes) == ("blackhole_p100", ())


def test_several_architectures_are_announced(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text([op(), op() | {"DEVICE ARCH": "blackhole"}]), encoding="utf-8")
    arch, notes = resolve(load(path))
    assert arch.name == "wormhole"
    assert "several architectures" in notes[0]
