"""One module per format that a summary is rendered to, and their list.

Every renderer is a pure function of the summary (and of the per-op frames); files are written by
:mod:`instrumentor_analysis.render`. A figure that was not measured is shown as such, never as 0.
"""

from __future__ import annotations

from msgspec import Struct


class Format(Struct, frozen=True):
    """One thing that can be written of a run.

    Attributes:
        name: what a user asks for.
        path: file or folder inside the run folder.
    """

    name: str
    path: str


#: In the order in which they are written: what others depend on comes first.
FORMATS = (
    Format("json", "summary.json"),
    Format("markdown", "summary.md"),
    Format("html", "report.html"),
    Format("plots", "plots"),
    Format("csv", "ops_report.csv"),
    Format("perfetto", "trace.perfetto.json"),
    Format("visualizer", "ttnn_visualizer"),
)
#: What is written when nothing is asked for.
DEFAULT = ("json", "markdown", "html")


def named(name: str) -> Format:
    """The format of that name.

    Raises:
        BadOption: there is none.
    """
    from instrumentor_analysis.errors import BadOption

    for each in FORMATS:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in FORMATS)
    raise BadOption(f"unknown report format {name!r}", f"Known: {known}")
