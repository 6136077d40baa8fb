"""Mistakes that are put into a plan, to see whether the run itself notices them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from instrumentor.plan import Plan
    from instrumentor.shared.edits import Edit, Statement

MISTAKES = ("begin late", "begin at the backward", "end early", "end late", "statement disabled")
_ANY = '__import__("torch").zeros(1)'  # for the barrier, where the script's names are not bound


def seeded(plan: Plan, mistake: str) -> Plan:
    """The plan with one of MISTAKES; as it was where the script has no place for it."""
    begins = [e for e in plan.edits if ".begin(" in e.code]
    ends = [e for e in plan.edits if ".end(" in e.code]
    if len(begins) != 1 or len(ends) != 1:
        return plan
    (begin,), (end,) = begins, ends
    block, first = _block(begin)
    same, last = _block(end)
    if [ast.dump(each) for each in block] != [ast.dump(each) for each in same]:
        return plan
    if mistake == "statement disabled":
        return _disabled(plan, begin, block[first])
    edit, place = {
        "begin late": (begin, first + 1),
        "begin at the backward": (begin, last),
        "end early": (end, last - 1),
        "end late": (end, last + 1),
    }[mistake]
    if not first <= place < len(block) or (edit is begin and place > last):
        return plan
    return _moved(plan, edit, block[place])


def install(mistake: str) -> None:
    """Have every plan of this process made with the mistake."""
    from instrumentor.rewrite import prepare

    make: Callable[..., Plan] = prepare.make_plan
    prepare.make_plan = lambda *arguments: seeded(make(*arguments), mistake)


def _block(planned: Edit) -> tuple[list[ast.stmt], int]:
    """The statements that an edit's stands among, and its place there."""
    tree = ast.parse(planned.file.read_bytes())
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            for number, each in enumerate(block):
                if _address(each) == planned.at:
                    return block, number
    raise LookupError(planned)


def _address(statement: ast.stmt) -> Statement:
    from instrumentor.shared.edits import Statement

    return Statement(statement.lineno, statement.col_offset)


def _moved(plan: Plan, which: Edit, to: ast.stmt) -> Plan:
    code = which.code
    if ".end(" in code:
        label = re.search(r'label="[^"]*"', code)
        code = re.sub(r"\.end\(.*\)", f".end({_ANY}, {label[0] if label else ''})", code)
    moved = replace(which, at=_address(to), code=code)
    return replace(plan, edits=tuple(moved if e is which else e for e in plan.edits))


def _disabled(plan: Plan, begin: Edit, statement: ast.stmt) -> Plan:
    from instrumentor.shared.edits import Edit, Kind

    off = Edit(Kind.DISABLE, _address(statement), "pass", file=begin.file)
    return replace(plan, edits=(*plan.edits, off))
