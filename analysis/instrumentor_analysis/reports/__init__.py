"""One module per format that a summary is rendered to.

In: a summary, a comparison or per-op frames; out: terminal text, Markdown, HTML, CSV, pictures.

Every renderer is a pure function of the summary (and of the per-op frames); files are written by
:mod:`instrumentor_analysis.reports.write`. A figure that was not measured is shown as
such, never as 0.
"""

from __future__ import annotations

#: Formats that a run folder has by itself, and their files in it, in the order of writing.
FILES = {"json": "summary.json", "markdown": "summary.md", "html": "report.html"}
