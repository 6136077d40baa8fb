"""Rows of separated cells to columns: the figures vectorised, repeating texts kept once.

The writer of the ops CSV never quotes and gives every row as many cells as the header, so all
separators of a block form a matrix. What describes an op stands in runs of neighbouring columns
that repeat from row to row: a run is looked up as one text and taken apart once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from instrumentor_analysis.load.attributes import ATTRIBUTED, PROGRAM_CONFIG
from instrumentor_analysis.load.scan import Header, wrong_cells
from instrumentor_analysis.load.schema import NUMBERS, wanted_columns
from instrumentor_analysis.load.table import Categorical, Floats, Mask, Table
from instrumentor_analysis.shared.caveats import Caveat

#: Texts that count as blank: those of pandas, and so of tt-perf-report.
BLANKS = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
        *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
_ATTRIBUTED = tuple(name.encode() for name in ATTRIBUTED)
#: Name of programs for which the file gives none.
UNNAMED = "(unnamed program)"
_RETURN, _ZERO = ord("\r"), ord("0")
#: Of a figure: far more than of any machine, and far less. A factor of 10**7 is left to sums.
_MOST, _LEAST = 1e301, 1e-30
#: Digits that an unsigned 64-bit integer holds, whatever they are.
_DIGITS = 19
_TENS = tuple(np.uint64(10**power) for power in range(_DIGITS))
# Columns that may stand between those of a run, since they describe the op as well.
_DESCRIBING = ("INPUT_", "OUTPUT_")

Ends = npt.NDArray[np.intp]


class _Run(Struct):
    """Neighbouring columns of text: per row the number of what stands there.

    Attributes:
        first, last: positions of the columns in the file.
        columns: position to our name, of those that are wanted.
        known: distinct texts, in the order of their numbers.
    """

    first: int
    last: int
    columns: dict[int, str]
    known: dict[bytes, int] = field(default_factory=dict)
    codes: list[npt.NDArray[np.int32]] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """Ours, of the columns."""
        return tuple(self.columns.values())


class RowReader:
    """Blocks of whole rows in, a table out.

    Args:
        path: the file, for errors.
        first_line: 1-based line of the first row in it.
        separator, row_end: single bytes that no cell holds.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        first_line: int = 2,
        separator: bytes = b",",
        row_end: bytes = b"\n",
    ) -> None:
        self._path, self._header, self._first_line = path, header, first_line
        self._separator, self._row_end = separator, row_end
        wanted = wanted_columns(header.columns)
        at = {ours: header.columns.index(theirs) for theirs, ours in wanted.items()}
        self._numbers = {name: at[name] for name in NUMBERS.values() if name in at}
        texts = {column: name for name, column in at.items() if name not in self._numbers}
        self._runs = _runs(header.columns, texts)
        self._figures: list[Floats] = []
        self._odd: dict[str, list[tuple[int, str]]] = {}
        self._attributed = bytearray()
        self._rows = 0

    def feed(self, block: bytes) -> None:
        """Add whole rows.

        Raises:
            DamagedFile: a row with too few or too many cells; names the line.
        """
        ends = self._ends(block)
        if ends is None:
            block = self._mended(block)
            ends = self._ends(block)
        if ends is None or not len(ends):
            return
        array = np.frombuffer(block, dtype=np.uint8)
        starts = np.empty_like(ends)
        starts[:, 1:] = ends[:, :-1] + 1
        starts[1:, 0] = ends[:-1, -1] + 1
        starts[0, 0] = 0
        # Lines may end in CR LF.
        ends[:, -1] -= array[np.maximum(ends[:, -1] - 1, 0)] == _RETURN
        self._read_numbers(block, array, starts, ends)
        for run in self._runs:
            cells = starts[:, run.first].tolist(), ends[:, run.last].tolist()
            read = self._read_by_name() if run.names == ("attributes",) else None
            run.codes.append(_looked_up(run, block, *cells, read))
        self._rows += len(ends)

    def table(self) -> Table:
        """All columns of the schema; those that the file lacks are blank."""
        blank, figures = np.full(self._rows, np.nan), np.empty((len(self._numbers), 0))
        if self._figures:
            figures = np.concatenate(self._figures, axis=1)
        # A CSV of the device alone: every row is an op of a device.
        same = np.zeros(self._rows, np.int32)
        columns: dict[str, Any] = {
            "op_code": Categorical(same, [UNNAMED]),
            "op_type": Categorical(same, ["tt_dnn_device"]),
        }
        for run in self._runs:
            columns |= _taken_apart(run, self._separator)
        columns |= dict.fromkeys(NUMBERS.values(), blank)
        columns |= zip(self._numbers, figures, strict=True)
        columns["line"] = np.arange(self._first_line, self._first_line + self._rows)
        return Table(columns)

    def warnings(self) -> tuple[Caveat, ...]:
        """Names that are missing; texts among the figures, each column's first."""
        name, columns, found = self._path.name, self._header.columns, list[Caveat]()
        if "OP TYPE" not in columns:
            what = "signposts" if "OP CODE" in columns else "names of ops and no signposts"
            text = f"{name} is of the device alone: it has times of programs, but no {what}."
            found.append(Caveat("device-only", text))
        theirs = {ours: column for column, ours in NUMBERS.items()}
        for column, odd in sorted(self._odd.items()):
            line, cell = odd[0]
            text = (
                f"{name}, line {line}, column {theirs[column]!r}: {cell!r} is not a number and "
                f"counts as blank ({len(odd)} such cells)."
            )
            found.append(Caveat("not-a-number", text))
        return tuple(found)

    def _ends(self, block: bytes) -> Ends | None:
        """Where each cell of each row ends; None where rows differ in their number of cells."""
        array = np.frombuffer(block, dtype=np.uint8)
        last = array == self._row_end[0]
        rows = int(np.count_nonzero(last))
        ends = np.flatnonzero(last | (array == self._separator[0]))
        width = len(self._header.columns)
        if len(ends) != rows * width or not last[ends[width - 1 :: width]].all():
            return None
        return ends.reshape(rows, width)

    def _mended(self, block: bytes) -> bytes:
        """The block without empty lines.

        Raises:
            DamagedFile: that is not what is wrong with it.
        """
        width = len(self._header.columns)
        lines = block.split(self._row_end)
        for number, line in enumerate(lines):
            cells = line.count(self._separator) + 1
            if line.strip() and cells != width:
                at = self._first_line + self._rows + number
                raise wrong_cells(self._path, self._header, at, cells)
        kept = [line + self._row_end for line in lines if line.strip()]
        return b"".join(kept)

    def _read_numbers(
        self, block: bytes, array: npt.NDArray[np.uint8], starts: Ends, ends: Ends
    ) -> None:
        if not self._numbers:
            return
        at = list(self._numbers.values())
        # A column after the other: the rows of each lie together in the result.
        first, behind = starts[:, at].T.ravel(), ends[:, at].T.ravel()
        values, plain = _whole_numbers(array, first, behind)
        rows = len(starts)
        for cell in np.flatnonzero(~plain).tolist():
            text = block[first[cell] : behind[cell]].decode("utf-8", "replace").strip()
            values[cell] = _number(text)
            if text not in BLANKS and np.isnan(values[cell]):
                line = self._first_line + self._rows + cell % rows
                name = list(self._numbers)[cell // rows]
                self._odd.setdefault(name, []).append((line, text))
        self._figures.append(values.reshape(len(at), rows))

    def _read_by_name(self) -> Mask:
        """Which of the rows fed last have ATTRIBUTES that something reads, by the op's name."""
        run = self._runs[0]
        if "op_code" not in run.names:
            return np.zeros(len(run.codes[-1]), np.bool_)
        known = [*islice(run.known, len(self._attributed), None)]
        # Each name is looked at once, in whichever block it comes.
        self._attributed += bytes(any(name in text for name in _ATTRIBUTED) for text in known)
        return np.frombuffer(self._attributed, np.bool_)[run.codes[-1]]


def _runs(columns: Sequence[str], texts: Mapping[int, str]) -> list[_Run]:
    """Wanted columns of text that stand side by side, or with other tensors between them.

    ATTRIBUTES is a run of its own: it may be another one for every op, and mostly says nothing.
    """
    runs: list[_Run] = []
    alone = {"attributes", "location"}
    for at in sorted(texts):
        between = columns[runs[-1].last + 1 : at] if runs else ()
        near = runs and all(name.startswith(_DESCRIBING) for name in between)
        if near and not alone & {texts[at], *runs[-1].names}:
            runs[-1].last = at
            runs[-1].columns[at] = texts[at]
        else:
            runs.append(_Run(at, at, {at: texts[at]}))
    # Op codes come first, because they tell whether the ATTRIBUTES of a row are read.
    return sorted(runs, key=lambda run: "op_code" not in run.names)


def _looked_up(
    run: _Run, block: bytes, starts: list[int], ends: list[int], read: Mask | None
) -> npt.NDArray[np.int32]:
    """The number of each row's text in its run.

    Args:
        read: which rows' ATTRIBUTES something reads. The others are blank unless they hold a
            program config: they may be different in every row, and would cost memory and time.
    """
    known, config = run.known, PROGRAM_CONFIG.encode()
    found = [known.get(block[a:b], -1) for a, b in zip(starts, ends, strict=True)]
    if -1 in found:
        for at, code in enumerate(found):
            if code < 0:
                text = block[starts[at] : ends[at]]
                if read is None or read[at] or config in text:
                    found[at] = known.setdefault(text, len(known))
    return np.asarray(found, np.int32)


def _taken_apart(run: _Run, separator: bytes) -> dict[str, Categorical]:
    """The columns of a run, all on the same codes."""
    codes = np.concatenate(run.codes) if run.codes else np.empty(0, np.int32)
    parts = [text.split(separator) for text in run.known]
    columns: dict[str, Categorical] = {}
    for at, name in run.columns.items():
        cells = [part[at - run.first].decode("utf-8", "replace") for part in parts]
        columns[name] = Categorical(codes, [None if c in BLANKS else c for c in cells])
    return columns


def _whole_numbers(array: npt.NDArray[np.uint8], starts: Ends, ends: Ends) -> tuple[Floats, Mask]:
    """Figures of cells of digits, NaN of empty ones; and which cells are one or the other."""
    sizes = ends - starts
    plain = sizes <= _DIGITS
    values = np.zeros(len(starts), np.uint64)
    longest = int(sizes[plain].max(initial=0))
    # Most cells of a long run of steps are short: those that are done drop out.
    left = np.flatnonzero(plain & (sizes > 0))
    for place in range(longest):
        left = left[sizes[left] > place] if place else left
        # Below '0' wraps around to far above 9.
        digits = array[ends[left] - 1 - place] - np.uint8(_ZERO)
        plain[left[digits > 9]] = False
        values[left] += digits.astype(np.uint64) * _TENS[place]
    figures = values.astype(np.float64)
    figures[sizes == 0] = np.nan
    return figures, plain


def _number(text: str) -> float:
    """A cell that is no plain whole number: one that is measured somewhere, else NaN."""
    try:
        value = float(text)
    except ValueError:
        return float("nan")
    # float() would accept 1_000, which no writer of a CSV means as a number.
    return value if is_figure(value) and "_" not in text else float("nan")


def is_figure(value: float) -> bool:
    """Whether anything has so large or so small a figure: sums and ratios of others are none."""
    return value == 0 or _LEAST < abs(value) < _MOST
