"""profile_log_device.csv: keys, pairs, dropped markers, damage."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor_analysis.kernels.device_log import ZONE_LIMIT, ZoneKey, read_device_log
from instrumentor_analysis.kernels.model import Machine
from instrumentor_analysis.shared.errors import AnalysisError, DamagedFile
from tests.analysis.kernels.printed import DEVICE_LOG
from tests.conftest import ROOT

HEAD = "".join(DEVICE_LOG.splitlines(keepends=True)[:2])


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_zones_by_device_core_risc_and_name(tmp_path: Path) -> None:
    log = read_device_log(written(tmp_path / "p.csv", DEVICE_LOG))
    assert log.machine == Machine("wormhole_b0", 1000, 64)
    zones = {zone.key: zone for zone in log.zones}
    assert zones[ZoneKey(0, 1, 1, "NCRISC", "NCRISC-KERNEL")].cycles == (500,)
    assert zones[ZoneKey(0, 2, 1, "NCRISC", "NCRISC-KERNEL")].cycles == (100,)
    assert log.core_cycles() == {(0, 1, 1): 500, (0, 2, 1): 100}


def test_a_recorded_log_of_a_simulated_device() -> None:
    """Two programs of two cores each, by tt-metal's own profiler on all five RISCs."""
    log = read_device_log(ROOT / "fixtures" / "ttnn" / "simulated_device_log.csv")
    assert log.machine == Machine("wormhole_b0", 1000, 72)
    assert {zone.key.core for zone in log.zones} == {(0, 18, 18), (0, 19, 18)}
    riscs = {"BRISC", "NCRISC", "TRISC_0", "TRISC_1", "TRISC_2"}
    assert {zone.key.risc for zone in log.zones} == riscs
    assert all(zone.begins == zone.ends == 2 for zone in log.zones)
    assert not log.skipped


def test_unequal_begins_and_ends(tmp_path: Path) -> None:
    (zone,) = read_device_log(written(tmp_path / "p.csv", DEVICE_LOG)).unpaired()
    assert (zone.key.zone, zone.begins, zone.ends, zone.cycles) == ("ttl_math", 1, 0, ())


def test_nested_zones_of_one_name_stay_apart(tmp_path: Path) -> None:
    row = "0,1,1,BRISC,1,{},0,1,,,z,{},1,k.cpp,\n"
    times = [(0, "START"), (10, "START"), (20, "END"), (50, "END")]
    text = HEAD + "".join(row.format(t, f"ZONE_{phase}") for t, phase in times)
    (zone,) = read_device_log(written(tmp_path / "p.csv", text)).zones
    assert zone.cycles == (10, 50)


def test_a_core_that_kept_all_it_can(tmp_path: Path) -> None:
    row = "0,1,1,BRISC,1,{},0,1,,,line_{},ZONE_START,1,k.cpp,\n"
    text = HEAD + "".join(row.format(t, t) for t in range(ZONE_LIMIT))
    assert read_device_log(written(tmp_path / "p.csv", text)).at_limit() == ((0, 1, 1),)


def test_a_cut_last_row_is_told(tmp_path: Path) -> None:
    log = read_device_log(written(tmp_path / "p.csv", DEVICE_LOG + "0,2,1,NCR"))
    assert log.skipped == (14,)


def test_another_file_is_refused_with_its_column(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="core_x"):
        read_device_log(written(tmp_path / "p.csv", "OP CODE,DEVICE\n1,2\n"))


def test_an_absent_file_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="cannot be read"):
        read_device_log(tmp_path / "none.csv")


@given(st.binary(max_size=400), st.integers(0, len(DEVICE_LOG)))
def test_damage_gives_values_or_a_typed_error(noise: bytes, cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.csv"
        path.write_bytes(DEVICE_LOG.encode()[:cut] + noise)
        with contextlib.suppress(AnalysisError):
            read_device_log(path)
