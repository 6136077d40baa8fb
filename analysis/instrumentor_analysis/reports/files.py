"""The files of a run, under the names by which people look for them."""

from __future__ import annotations

from collections.abc import Mapping

#: End of a path -> what it is; these come first, in this order.
_KNOWN = (
    ("report.html", "report"),
    ("tt_perf_report_stacked.png", "chart"),
    (".tracy", "host trace"),
    ("torch_profile/trace.json", "trace"),
)


def listed(artifacts: Mapping[str, str]) -> list[tuple[str, str]]:
    """(what it is, path) of each artifact: chart and host trace first, the rest as recorded."""
    first: list[tuple[str, str]] = []
    rest = dict(artifacts)
    for end, name in _KNOWN:
        for key, path in artifacts.items():
            if path.endswith(end) and key in rest:
                first.append((name, rest.pop(key)))
    return first + list(rest.items())
