"""Files of numbers: an output of a kernel's script, and what it is compared with.

What a file says it holds is looked at before memory is asked for it.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.documents import read
from instrumentor_analysis.shared.files import Unfit, opened, opened_text
from instrumentor_analysis.shared.packed import members

if TYPE_CHECKING:
    import numpy as np

#: Of a file, of all that is packed in it, and of its numbers in memory, 8 bytes each.
MOST_BYTES = 1024 * 1024 * 1024


def numbers_in(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a .npy, .npz, .json, .csv or .txt by name; one without a name is under ''.

    Raises:
        UsageError: the file is of another kind, damaged, or holds more than 1 GiB.
    """
    try:
        return _numbers(path)
    except (OSError, ValueError, TypeError, EOFError, RecursionError, MemoryError) as error:
        fault = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: cannot be read as numbers: {fault}") from error


def _numbers(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    match path.suffix:
        case ".npz":
            found: dict[str, np.ndarray[Any, Any]] = {}
            for name, data in members(path, MOST_BYTES):
                taken = sum(array.nbytes for array in found.values())
                found[name.removesuffix(".npy")] = _array(
                    io.BytesIO(data), path, MOST_BYTES - taken
                )
            return found
        case ".npy":
            with opened(path) as stream:
                return {"": _array(stream, path, MOST_BYTES)}
        case ".json":
            return {"": np.asarray(read(path), dtype=float)}
        case ".csv" | ".txt":
            delimiter = "," if path.suffix == ".csv" else None
            with opened_text(path) as lines:
                if os.fstat(lines.fileno()).st_size > MOST_BYTES:
                    raise _too_much(path, MOST_BYTES)
                return {"": np.loadtxt(lines, delimiter=delimiter, ndmin=1)}
    raise UsageError(
        f"{path}: of a kind that is not compared",
        "Write .npy, .npz, .json, .csv or .txt, or use --validate COMMAND.",
    )


def _array(stream: IO[bytes], path: Path, room: int) -> np.ndarray[Any, Any]:
    """One array in numpy's own format.

    Args:
        room: how many bytes its numbers may have.

    Raises:
        Unfit: they are more.
        ValueError: there is none.
    """
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:  # a later one is for names of fields, which numbers have not
        raise ValueError(f"of a format that is not known {version}")
    shape, _, dtype = readers[version](stream)
    # A file of no bytes may say that it has any number of elements of no size.
    if min(shape, default=0) < 0 or math.prod(shape) * max(dtype.itemsize, 8) > room:
        raise _too_much(path, room)
    stream.seek(0)
    # A pickle could run code.
    array: np.ndarray[Any, Any] = npy.read_array(stream, allow_pickle=False)
    return array.astype(float)


def _too_much(path: Path, room: int) -> Unfit:
    return Unfit(path, f"says that it holds more than {room / 2**20:,.0f} MiB of numbers")
