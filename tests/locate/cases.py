"""Small scripts to locate in: a loop body, with what every script has around it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from instrumentor import Declined, Options, Rewritten, rewrite

HEAD = """\
import torch
import torch_xla
import torch_xla.core.xla_model as xm

model = torch.nn.Linear(4, 4)
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def looped(body: str, before: str = "", header: str = "for x, y in loader:") -> str:
    """A module with one loop; the body starts at line 9 when nothing stands before."""
    indented = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    setup = textwrap.dedent(before).strip("\n")
    return HEAD + (setup + "\n" if setup else "") + f"{header}\n{indented}\n"


def rewritten(source: str, **options: Any) -> Rewritten:
    """The source, rewritten under the name train.py."""
    return rewrite(source, Options(**options), filename="train.py")


def plan_of(source: str, **options: Any) -> dict[str, Any]:
    """The explanation of a source."""
    return dict(rewritten(source, **options).plan.explanation)


def timed(plan: Mapping[str, Any]) -> dict[str, int]:
    """The lines of a plan's region."""
    return {key: plan["region"][key] for key in ("start_line", "end_line")}


def lines_of(source: str, *marks: str) -> list[int]:
    """1-based lines that hold each text; the first one each."""
    lines = source.splitlines()
    return [next(n for n, line in enumerate(lines, 1) if mark in line) for mark in marks]


def around(result: Rewritten, mark: str) -> tuple[str, str]:
    """The lines before and after the first inserted line that holds a text, stripped."""
    lines = [line.strip() for line in result.code.decode().splitlines()]
    index = next(n for n, line in enumerate(lines) if mark in line)
    return lines[index - 1], lines[index + 1]


_INSERTED = re.compile(r"( *)(?:if )?_instrument\.(\w+)\((.*)\):?  # \[instrument\]")
_KEYWORDS = re.compile(r"\b(?:resume|label|synced|when)=(?:[^,()]|\([^)]*\))+")
#: Of nearly every script here, which imports torch_xla.
_EVERYWHERE = ("sync-inserted",)


def tables(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Scripts as they are rewritten, by name: `=== NAME | OPTION=VALUE`, then what follows HEAD."""
    found = {}
    for block in text.split("=== ")[1:]:
        head, _, script = block.partition("\n")
        name, *options = (part.strip() for part in head.split("|"))
        found[name] = script, dict(option.split("=") for option in options)
    return found


def holds(case: tuple[str, dict[str, str]]) -> None:
    """That the script of a table is rewritten as it stands there, or declined for what it says."""
    script, options = case
    source = HEAD + re.sub(r"^ *> .*\n|  #! .*", "", script, flags=re.MULTILINE)
    try:
        shown = "".join(_shown(source, options))
    except Declined as declined:
        reason = declined.reasons[0]
        lines = source.splitlines(keepends=True)
        remedy = re.split("[:,]", reason.remedy)[0]
        lines[reason.line - 1] = f"{lines[reason.line - 1].rstrip()}  #! {reason.kind}: {remedy}\n"
        shown = "".join(lines)
    assert shown == HEAD + script


def _shown(source: str, options: Mapping[str, str]) -> Iterator[str]:
    """`> begin`, `> end`, `> stop`, with keywords; `#! kind` behind a line that is warned of."""
    result = rewritten(source, **options)
    told: dict[int, list[str]] = {}
    for warning in result.plan.warnings:
        if warning.kind not in _EVERYWHERE:
            told.setdefault(int(warning.place.partition(":")[2]), []).append(warning.kind)
    original = iter(source.splitlines())
    prelude, _, body = result.code.decode().partition("# [instrument] end\n")
    kept = prelude.partition("# [instrument] begin")[0] + body
    lines, number = iter(kept.splitlines()), 0
    for line in lines:
        found = _INSERTED.match(line)
        if found is None:
            number += 1
            assert line == next(original)
            yield "  #! ".join([line, *dict.fromkeys(told.get(number, ()))]) + "\n"
            continue
        indent, what, given = found.groups()
        if what == "enter":  # of nearly every loop, too
            continue
        keywords = _KEYWORDS.findall(given)
        if what == "finished":
            what = "return" if next(lines).strip().startswith("return") else "stop"
            keywords = [given] if given else []
        yield " ".join([f"{indent}> {what}", *keywords]) + "\n"
