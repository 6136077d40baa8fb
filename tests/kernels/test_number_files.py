"""What a file says it holds is looked at before memory is asked for it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from instrumentor.kernels import number_files
from instrumentor.kernels.number_files import numbers_in
from instrumentor.shared.errors import UsageError


def head(shape: object, kind: str = "<f8") -> bytes:
    """A file of numpy's that has a head and nothing else."""
    said = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}}}".encode()
    said += b" " * (-len(said) % 64 - 11) + b"\n" if len(said) % 64 < 53 else b"\n"
    return npy.magic(1, 0) + len(said).to_bytes(2, "little") + said


def test_numbers_of_an_archive(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(3), y=np.ones((2, 2), dtype="f4"))
    found = numbers_in(tmp_path / "a.npz")
    assert sorted(found) == ["x", "y"] and found["x"].tolist() == [0.0, 1.0, 2.0]
    assert found["y"].dtype == float and found["y"].shape == (2, 2)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((1 << 40,), "<f8"), ((1 << 33, 1 << 33), "|i1"), ((1 << 31,), "|V0"), ((1,), "<U500000000")],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_more_numbers_than_there_is_memory_for(
    tmp_path: Path, shape: object, kind: str, suffix: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        path.write_bytes(head(shape, kind))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", head(shape, kind))
    with pytest.raises(UsageError, match="more than 1,024 MiB of numbers") as error:
        numbers_in(path)
    assert str(path) in error.value.message


def test_arrays_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones take eight bytes a number here, whatever they take in the archive."""
    monkeypatch.setattr(number_files, "MOST_BYTES", 4096)
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(300, "i1"), y=np.zeros(300, "i1"))
    with pytest.raises(UsageError, match="of numbers"):
        numbers_in(tmp_path / "a.npz")
    np.savez_compressed(tmp_path / "b.npz", x=np.zeros(5000, "i1"))
    with pytest.raises(UsageError, match="unpacks to more than"):
        numbers_in(tmp_path / "b.npz")
    (tmp_path / "c.csv").write_text("1\n" * 3000)
    with pytest.raises(UsageError, match="of numbers"):
        numbers_in(tmp_path / "c.csv")


@pytest.mark.parametrize("shape", [(-1,), "x", (1.5,)])
def test_a_head_that_says_nothing(tmp_path: Path, shape: object) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(head(shape) + bytes(16))
    with pytest.raises(UsageError, match="cannot be read as numbers"):
        numbers_in(path)


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match="allow_pickle"):
        numbers_in(tmp_path / "a.npy")
