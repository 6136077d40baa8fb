"""Number the distinct rows of a frame over many columns, by their category codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


def distinct(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[npt.NDArray[np.intp], Any]:
    """Number the distinct rows over some columns: number per row, first row of each number."""
    import numpy as np
    import pandas as pd

    key = np.zeros(len(frame), dtype=np.int64)
    radix = 1
    for name in columns:
        if name not in frame.columns:
            continue
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            codes, size = column.cat.codes.to_numpy(), len(column.cat.categories) + 1
        else:
            codes, values = pd.factorize(column)
            size = len(values) + 1
        if size <= 2 and (len(codes) == 0 or (codes == codes[0]).all()):
            continue
        if radix * size >= 1 << 62:
            key, seen = pd.factorize(key)
            key, radix = key.astype(np.int64), len(seen)
        key = key * size + codes + 1
        radix *= size
    which, seen = pd.factorize(key)
    first = np.empty(len(seen), dtype=np.intp)
    # The last assignment wins, so from the end to the beginning.
    first[which[::-1]] = np.arange(len(frame) - 1, -1, -1)
    return which, first
