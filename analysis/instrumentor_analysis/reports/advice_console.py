"""The advice on single ops, said once per kind of op instead of once per op."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from instrumentor_analysis.model import GAP_THRESHOLD_US
from instrumentor_analysis.ops.advice import TRACED_GAP_US
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.terminal import Paint, indented
from instrumentor_analysis.shared.documents import listed

if TYPE_CHECKING:
    from instrumentor_analysis.ops.op_report import Report

#: IDs named before the rest are counted.
MOST_IDS = 6


def advice_lines(report: Report, width: int, paint: Paint) -> list[str]:
    """What to do about host ops, gaps and matmuls; empty when there is nothing to say."""
    lines = [
        line
        for first, *rest in (*_fallbacks(report), *_gaps(report), *_matmuls(report))
        for line in (
            *indented(formatting.visible(first), width, "  - "),
            *(line for text in rest for line in indented(text, width, "      ", "        ")),
        )
    ]
    return [paint("Advice", "bold"), *lines] if lines else []


def ids(numbers: Sequence[int]) -> str:
    """``ID 8``, ``IDs 8, 9, 10 and 72 more``."""
    return f"{'ID' if len(numbers) == 1 else 'IDs'} {listed(numbers, MOST_IDS)}"


def _fallbacks(report: Report) -> Iterator[list[str]]:
    hosts = report.ops.take(report.ops["is_host"])
    if len(hosts):
        names = ", ".join(sorted({str(name) for name in hosts["op"]}))
        yield [f"Move to the device: {names} ({ids(hosts['id'].tolist())})"]


def _gaps(report: Report) -> Iterator[list[str]]:
    gaps = report.gaps
    if gaps is not None:
        share = "" if gaps.percent is None else f" ({gaps.percent:.1f} % of the time)"
        yield [
            f"{formatting.plural(len(gaps.ids), 'op')} waited more than {GAP_THRESHOLD_US} us for "
            f"the host ({ids(gaps.ids)}): a runtime trace, with gaps of {TRACED_GAP_US:g} us, "
            f"could save up to {gaps.saving_us:,.0f} us{share}; else look at what the host does "
            "between them, or turn runtime arguments of the kernels into compile-time ones"
        ]


def _matmuls(report: Report) -> Iterator[list[str]]:
    """One entry per matmul shape and advice, those of most device time first."""
    ops = report.ops
    names, numbers = ops["op"].tolist(), ops["id"].tolist()
    times, bounds = np.nan_to_num(ops["device_time_us"]).tolist(), ops["bound"].tolist()
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    for at, sentences in report.advice.items():
        groups[names[at], sentences].append(at)
    spent = {key: sum(times[at] for at in rows) for key, rows in groups.items()}
    optimised = 0
    for key in sorted(groups, key=lambda key: -spent[key]):
        (name, sentences), rows = key, groups[key]
        if sentences:
            named = ids([int(numbers[at]) for at in rows])
            head = f"{name}: {len(rows):,} x, {spent[key]:,.0f} us ({named})"
            yield [head, *map(formatting.visible, sentences)]
        else:
            # An op without a bound was not held against any peak.
            optimised += sum(bool(bounds[at]) for at in rows)
    if optimised:
        yield [f"{formatting.plural(optimised, 'matmul')} with nothing to improve"]
