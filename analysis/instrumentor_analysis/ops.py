"""The ops of a device as they were read; :mod:`instrumentor_analysis.load` reads them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from instrumentor_analysis.caveats import Caveat
from instrumentor_analysis.schema import CsvFormat
from instrumentor_analysis.table import Table


class Ops(Struct, frozen=True):
    """Rows of one or several ops CSVs.

    Attributes:
        frame: the rows, in file order; see :mod:`instrumentor_analysis.load`.
        format: by the header of the (first) file.
        sources: the files.
        warnings: what was odd, e.g. text in a column of figures.
    """

    frame: Table
    format: CsvFormat
    sources: tuple[Path, ...]
    warnings: tuple[Caveat, ...] = ()
