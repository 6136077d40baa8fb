"""Ops by what they do: Compute, CCL, TM, DM, Host, Other.

Two answers per op. ``tt_perf_report_category`` is that of tt-perf-report 1.4.1: the first word
of the op code, exactly, in its table. ``category`` is ours: the same wherever that says
something, else by rules that know the ops of training, so that Other stays small.
"""

from __future__ import annotations

import re
from functools import cache

from instrumentor_analysis.shared.documents import kept

#: Categories in the order of charts and reports.
ORDER = ("Compute", "CCL", "TM", "DM", "Host", "Other")
#: Marks an op that fell back to the host, anywhere in its op code.
HOST_MARKER = "(torch)"
_SUFFIX = re.compile(r"(DeviceOperation|Operation|Op){1,9}$")


@cache
def _exact() -> dict[str, str]:
    names: dict[str, str] = {}
    for category, ops in kept("categories")["exact"].items():
        for op in ops:
            names[op] = names[f"{op}DeviceOperation"] = category
    return names


@cache
def _rules(which: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), name) for pattern, name in kept("categories")[which])


def _first_rule(which: str, name: str) -> str:
    return next((where for pattern, where in _rules(which) if pattern.search(name)), "Other")


def is_host(op_code: str) -> bool:
    """The op ran on the host."""
    return HOST_MARKER in op_code


@cache
def tt_perf_report_category(op_code: str) -> str:
    """The category that tt-perf-report 1.4.1 gives."""
    if is_host(op_code):
        return "Host"
    words = op_code.split(maxsplit=1)
    return _exact().get(words[0], "Other") if words else "Other"


@cache
def category(op_code: str) -> str:
    """Our category: theirs, else the first rule that fits the name without its suffix."""
    found = tt_perf_report_category(op_code)
    words = op_code.split(maxsplit=1)
    if found != "Other" or not words:
        return found
    name = _SUFFIX.sub("", words[0].rsplit("::", 1)[-1])
    return _first_rule("rules", name)


@cache
def torch_category(op: str) -> str:
    """Category of an ATen op or a CUDA kernel name, for profiles without a device."""
    return _first_rule("torch_rules", op.rsplit("::", 1)[-1].lower())
