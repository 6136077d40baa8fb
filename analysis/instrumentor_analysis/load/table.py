"""A table of columns: numpy arrays of figures, categoricals of text.

What the analysis needs of a data frame, and no more: loading pandas takes longer than reporting
on most files. :meth:`Table.to_pandas` hands a table over to whoever has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]

#: Lookup tables are used for keys below this, sorting above.
_DENSE = 1 << 22
#: Values that a few rows may keep although they have fewer: leaving them out costs more.
_FEW_VALUES = 64


class Categorical:
    """Values that repeat: per row the position of its value, -1 for a blank.

    Attributes:
        codes: one per row. Columns that were read together share the array itself.
        values: what the codes stand for; the same value may stand there twice. A part of the rows
            has no more than a few times as many as it has rows: each step of a file has its own.
    """

    __slots__ = ("codes", "values")

    def __init__(self, codes: npt.NDArray[Any], values: Sequence[Any]) -> None:
        self.codes = codes
        self.values = values

    @classmethod
    def of(cls, cells: Sequence[Any]) -> Categorical:
        """One cell per row, None where blank."""
        # With None in it from the start, the first value gets len - 1 = 0.
        known: dict[Any, int] = {None: -1}
        codes = [known.setdefault(cell, len(known) - 1) for cell in cells]
        return cls(np.asarray(codes, np.int32), [value for value in known if value is not None])

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, rows: Any) -> Categorical:
        codes, used = _renumbered(self.codes[rows], len(self.values))
        return self._of(codes, used)

    def _of(self, codes: npt.NDArray[Any], used: list[int] | None) -> Categorical:
        """Other codes, for these of the values; None for all of them."""
        values = self.values
        return Categorical(codes, values if used is None else [values[at] for at in used])

    def tolist(self) -> list[Any]:
        """A value per row, None where blank."""
        return self.each(self.values, None)

    def spread(self, per_value: Sequence[Any], blank: Any, kind: Any = None) -> npt.NDArray[Any]:
        """An array with what stands for each row's value, ``blank`` where there is none."""
        # -1, the code of a blank, picks the last one.
        found: npt.NDArray[Any] = np.asarray([*per_value, blank], dtype=kind)[self.codes]
        return found

    def each(self, per_value: Sequence[T], blank: T) -> list[T]:
        """What stands for each row's value, ``blank`` where there is none."""
        values = [*per_value, blank]
        return [values[code] for code in self.codes.tolist()]

    def map(self, per_value: Sequence[Any]) -> Categorical:
        """Other values in place of these; None makes a blank."""
        if any(value is None for value in per_value):
            codes = [-1 if value is None else at for at, value in enumerate(per_value)]
            return Categorical(self.spread(codes, -1, np.int32), per_value)
        return Categorical(self.codes, per_value)

    def equals(self, *wanted: Any) -> Mask:
        """Rows with one of these values."""
        return self.spread([value in wanted for value in self.values], False, np.bool_)

    def known(self) -> Mask:
        """Rows that are not blank."""
        return self.spread([value is not None for value in self.values], False, np.bool_)

    def distinct(self) -> list[Any]:
        """Values that occur, in the order of the rows."""
        _, first = number(self)
        values = [*self.values, None]
        found = (values[code] for code in self.codes[first].tolist())
        return [value for value in found if value is not None]


Column = Any
"""A numpy array, or a :class:`Categorical`."""


class Table:
    """Columns of one length by name."""

    __slots__ = ("_columns", "_length")

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self._length = lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names, in order."""
        return tuple(self._columns)

    def assign(self, **columns: Column) -> Table:
        """The table with further columns, or with others in the place of its own."""
        return Table({**self._columns, **columns})

    def take(self, rows: Any) -> Table:
        """Some rows: a mask, positions, or a slice."""
        # Columns that share their codes go on sharing them.
        shared: dict[tuple[int, int], tuple[npt.NDArray[Any], list[int] | None]] = {}

        def part(column: Column) -> Column:
            if not isinstance(column, Categorical):
                return column[rows]
            key = id(column.codes), len(column.values)
            if key not in shared:
                shared[key] = _renumbered(column.codes[rows], key[1])
            return column._of(*shared[key])

        return Table({name: part(column) for name, column in self._columns.items()})

    def records(self, names: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """A dictionary per row; blanks are None among texts, NaN among figures."""
        names = self.columns if names is None else names
        for values in zip(*(self._columns[name].tolist() for name in names), strict=True):
            yield dict(zip(names, values, strict=True))

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame of pandas, which has to be installed."""
        import pandas as pd

        return pd.DataFrame(
            {
                name: column.tolist() if isinstance(column, Categorical) else column
                for name, column in self._columns.items()
            }
        )


def concat(tables: Sequence[Table]) -> Table:
    """Rows of tables with the same columns, one after the other."""
    if len(tables) == 1:
        return tables[0]
    names = [name for name in tables[0].columns if all(name in table for table in tables)]
    return Table({name: _joined([table[name] for table in tables]) for name in names})


def _joined(parts: Sequence[Column]) -> Column:
    if not isinstance(parts[0], Categorical):
        return np.concatenate(parts)
    values: list[Any] = []
    codes: list[npt.NDArray[Any]] = []
    for part in parts:
        codes.append(np.where(part.codes < 0, -1, part.codes + len(values)))
        values += part.values
    return Categorical(np.concatenate(codes), values)


def _renumbered(codes: npt.NDArray[Any], values: int) -> tuple[npt.NDArray[Any], list[int] | None]:
    """The codes of some rows, and which of so many values they stand for; None for all."""
    if values <= 2 * len(codes) + _FEW_VALUES:
        return codes, None
    used, anew = np.unique(codes, return_inverse=True)
    blanks = int(np.searchsorted(used, 0))
    return anew.reshape(-1).astype(codes.dtype) - blanks, used[blanks:].tolist()


def number(*columns: Column) -> tuple[Positions, Positions]:
    """Number the distinct rows over some columns in their order: number per row, first rows."""
    key: npt.NDArray[np.int64] | None = None
    radix = 1
    shared: dict[int, list[Categorical]] = {}
    for column in columns:
        if isinstance(column, Categorical):
            shared.setdefault(id(column.codes), []).append(column)
    parts = [_together(same) for same in shared.values()]
    parts += [_coded(column) for column in columns if not isinstance(column, Categorical)]
    for codes, size in parts:
        # The key must stay within 64 bits: its values are numbered anew, which makes room.
        if radix * size >= 1 << 62 and key is not None:
            key, first = _dense(key, radix)
            radix = len(first)
        key = codes if key is None else key * size + codes
        radix *= size
    if key is None:
        raise ValueError("no columns to number the rows by")
    which, first = _dense(key, radix)
    return which.astype(np.intp, copy=False), first


def _together(columns: Sequence[Categorical]) -> tuple[npt.NDArray[np.int64], int]:
    """Columns with the same codes as one: what their values say together, numbered."""
    known: dict[tuple[Any, ...], int] = {}
    blank = (None,) * len(columns)
    every = [*zip(*(column.values for column in columns), strict=True), blank]
    same = [known.setdefault(values, len(known)) for values in every]
    return columns[0].spread(same[:-1], same[-1], np.int64), len(known)


def _coded(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], int]:
    distinct, codes = np.unique(values, return_inverse=True)
    return codes.reshape(-1).astype(np.int64), max(len(distinct), 1)


def _dense(key: npt.NDArray[np.int64], radix: int) -> tuple[npt.NDArray[np.int64], Positions]:
    """Keys below ``radix`` to numbers in the order of their first rows; and these."""
    size = len(key)
    if radix > max(_DENSE, size):
        key = np.unique(key, return_inverse=True)[1].reshape(-1)
        radix = int(key.max()) + 1 if size else 1
    first = np.full(radix, size, dtype=np.intp)
    # The last assignment wins, so from the end to the beginning.
    first[key[::-1]] = np.arange(size - 1, -1, -1)
    present = np.flatnonzero(first < size)
    present = present[np.argsort(first[present])]
    rank = np.empty(radix, dtype=np.int64)
    rank[present] = np.arange(len(present))
    return rank[key], first[present]


class Groups:
    """Rows that agree in some columns, in the order in which they come up.

    Attributes:
        which: per row the number of its group.
        first: the first row of each.
        sizes: rows of each.
    """

    __slots__ = ("_order", "first", "sizes", "which")

    def __init__(self, *columns: Column) -> None:
        self.which, self.first = number(*columns)
        self.sizes = np.bincount(self.which, minlength=len(self.first))
        self._order: Positions | None = None

    def __len__(self) -> int:
        return len(self.first)

    def rows(self) -> list[Positions]:
        """The rows of each group, in order."""
        if self._order is None:
            self._order = np.argsort(self.which, kind="stable")
        return np.split(self._order, np.cumsum(self.sizes)[:-1]) if len(self) else []

    def nth(self) -> Positions:
        """Per row, how many rows of its group stand before it."""
        found = np.empty(len(self.which), dtype=np.intp)
        for rows in self.rows():
            found[rows] = np.arange(len(rows))
        return found

    def counts(self, values: Floats) -> npt.NDArray[np.intp]:
        """Figures of each that are known."""
        return np.bincount(self.which, weights=~np.isnan(values), minlength=len(self)).astype(
            np.intp
        )

    def sums(self, values: Floats) -> Floats:
        """Sum of what is known; 0 without."""
        return np.bincount(self.which, np.nan_to_num(values), len(self)).astype(np.float64)

    def means(self, values: Floats) -> Floats:
        """Mean of what is known; NaN without."""
        return quotient(self.sums(values), self.counts(values))

    def medians(self, values: Floats) -> Floats:
        """Median of what is known; NaN without."""
        known = self.counts(values)
        # NaN sorts behind every figure, so what is known stands first in each group.
        ordered = values[np.lexsort((values, self.which))]
        begin = np.cumsum(self.sizes) - self.sizes
        low, high = (ordered[begin + np.maximum(known - odd, 0) // 2] for odd in (1, 0))
        return np.where(known > 0, (low + high) / 2, np.nan)

    def stdevs(self, values: Floats) -> Floats:
        """Sample standard deviation of what is known; NaN below two."""
        around = self.sums((values - self.means(values)[self.which]) ** 2)
        variance = quotient(around, self.counts(values) - 1)
        return np.asarray(np.sqrt(variance), np.float64)

    def apply(self, function: Any, values: Floats) -> Floats:
        """A figure of the known values of each group; NaN where there is none."""
        found = [values[rows] for rows in self.rows()]
        known = [part[~np.isnan(part)] for part in found]
        return np.asarray([function(part) if len(part) else np.nan for part in known], np.float64)


def quotient(above: Floats, below: npt.NDArray[Any]) -> Floats:
    """Above over below, NaN where below is not positive."""
    found = np.full(len(above), np.nan)
    np.divide(above, below, out=found, where=below > 0)
    return found


def total(values: Floats) -> float:
    """Sum of what is known; 0 without."""
    return float(np.nansum(values))


def distinct(values: Floats) -> Floats:
    """The known figures, each once, rising. (numpy's own loads its masked arrays for this.)"""
    known = np.sort(values[values == values])
    first = np.ones(len(known), np.bool_)
    first[1:] = known[1:] != known[:-1]
    return known[first]


def by_figure(values: Floats) -> tuple[Floats, list[Positions]]:
    """The known figures, rising, and the positions of each."""
    found, known = distinct(values), np.flatnonzero(values == values)
    codes = np.searchsorted(found, values[known])
    ends = np.cumsum(np.bincount(codes, minlength=len(found)))
    # Numbers of 16 bits are sorted in a single pass.
    kind = np.uint16 if len(found) <= 1 << 16 else np.intp
    rows = known[np.argsort(codes.astype(kind), kind="stable")]
    return found, np.split(rows, ends[:-1]) if len(found) else []


def any_known(values: Floats) -> bool:
    """Some figure is not NaN."""
    return bool((~np.isnan(values)).any())
