"""The advice on single ops, said once per kind of op instead of once per op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from instrumentor_analysis.advice import TRACED_GAP_US
from instrumentor_analysis.model import GAP_THRESHOLD_US
from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.terminal import Paint, indented

if TYPE_CHECKING:
    from instrumentor_analysis.report_options import Report

#: IDs named before the rest are counted.
MOST_IDS = 6


def advice_lines(report: Report, width: int, paint: Paint) -> list[str]:
    """What to do about host ops, gaps and matmuls; empty when there is nothing to say."""
    parts = [
        _fallbacks(report, width),
        _gaps(report, width),
        *_matmuls(report, width),
    ]
    lines = [line for part in parts for line in part]
    return [paint("Advice", "bold"), *lines] if lines else []


def ids(numbers: Sequence[int]) -> str:
    """``ID 8``, ``IDs 8, 9, 10 and 72 more``."""
    first = ", ".join(str(number) for number in numbers[:MOST_IDS])
    more = len(numbers) - MOST_IDS
    rest = f" and {more:,} more" if more > 0 else ""
    return f"{'ID' if len(numbers) == 1 else 'IDs'} {first}{rest}"


def _fallbacks(report: Report, width: int) -> list[str]:
    hosts = report.ops.take(report.ops["is_host"])
    if not len(hosts):
        return []
    names = ", ".join(sorted({words.visible(str(name)) for name in hosts["op"]}))
    text = f"Move to the device: {names} ({ids(hosts['id'].tolist())})"
    return indented(text, width, "  - ")


def _gaps(report: Report, width: int) -> list[str]:
    gaps = report.gaps
    if gaps is None:
        return []
    share = "" if gaps.percent is None else f" ({gaps.percent:.1f} % of the time)"
    text = (
        f"{words.plural(len(gaps.ids), 'op')} waited more than {GAP_THRESHOLD_US} us for the host "
        f"({ids(gaps.ids)}): a runtime trace, with gaps of {TRACED_GAP_US:g} us, could save "
        f"{gaps.saving_us:,.0f} us{share}; "
        "else look for what the host does between them, or turn runtime arguments of the kernels "
        "into compile-time ones"
    )
    return indented(text, width, "  - ")


def _matmuls(report: Report, width: int) -> list[list[str]]:
    """One entry per matmul shape and advice, those of most device time first."""
    ops = report.ops
    names, numbers = ops["op"].tolist(), ops["id"].tolist()
    times, bounds = np.nan_to_num(ops["device_time_us"]).tolist(), ops["bound"].tolist()
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for at, sentences in report.advice.items():
        groups.setdefault((names[at], sentences), []).append(at)
    entries: list[tuple[float, list[str]]] = []
    optimised = 0
    for (name, sentences), rows in groups.items():
        if not sentences:
            # Without a bound nothing was held against anything.
            optimised += sum(bool(bounds[at]) for at in rows)
            continue
        time = sum(times[at] for at in rows)
        head = (
            f"{words.visible(name)}: {len(rows):,} x, {time:,.0f} us "
            f"({ids([int(numbers[at]) for at in rows])})"
        )
        lines = indented(head, width, "  - ")
        for sentence in sentences:
            lines += indented(words.visible(sentence), width, "      ", "        ")
        entries.append((time, lines))
    entries.sort(key=lambda entry: -entry[0])
    found = [lines for _, lines in entries]
    if optimised:
        found.append([f"  - {words.plural(optimised, 'matmul')} with nothing to improve"])
    return found
