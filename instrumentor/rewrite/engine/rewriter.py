"""The pass of LibCST that carries out all edits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import libcst as cst

from instrumentor.rewrite.engine.actions import Actions
from instrumentor.rewrite.engine.pairs import COMPOUND, Node
from instrumentor.rewrite.engine.snippets import (
    Line,
    comment_line,
    marked_end,
    physical,
    prelude,
    snippet,
)
from instrumentor.rewrite.line_format import BEGIN, END, MARKER, switch_off
from instrumentor.shared.edits import Edit, Kind, Statement

#: Nodes that hold statements: a simple line or the header of a block holds none.
_HOLDERS = COMPOUND | {
    *(cst.Module, cst.IndentedBlock, cst.Else, cst.ExceptHandler, cst.ExceptStarHandler),
    *(cst.Finally, cst.MatchCase),
}
#: A block of this number goes here, once LibCST has printed the module: a recorder's text can be
#: longer than the script, and parsing it took half of the rewriting's time.
_PRELUDE = re.compile(re.escape(MARKER) + r" prelude (\d+)")
_NEWLINE = re.compile(r"\r\n?")
_NO_ACTIONS = Actions()


class Rewriter(cst.CSTTransformer):
    """Carries out the actions at statements of one module, in one pass over its blocks.

    ``lines`` are the physical lines of the original.

    Attributes:
        left: actions that have not been carried out.
    """

    def __init__(
        self,
        module: cst.Module,
        lines: Sequence[str],
        actions: Mapping[Statement, Actions],
        nodes: Mapping[Statement, Node],
    ) -> None:
        super().__init__()
        self._module = module
        self._lines = lines
        self._nodes = nodes
        self._places = {id(node): where.line for where, node in nodes.items()}
        self._actions = {id(nodes[where]): found for where, found in actions.items()}
        self._preludes: list[str] = []
        self.left = dict(self._actions)

    def rewritten(self) -> bytes:
        """The module with the actions carried out, in its own encoding."""
        module = self._module.visit(self)
        code = _PRELUDE.sub(lambda found: self._preludes[int(found[1])], module.code)
        return code.encode(module.encoding)

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Statements in blocks alone, and none inside of one that is taken out."""
        return type(node) in _HOLDERS and self._of(node).off is None

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Put together what was inserted, switched off and moved here."""
        if isinstance(original_node, (cst.Module, cst.IndentedBlock)):
            return self._block(original_node, updated_node)
        suite = getattr(original_node, "body", None)
        if isinstance(suite, cst.SimpleStatementSuite) and self._holds_one(suite.body):
            if self._of(original_node).off is None:
                return updated_node.with_changes(**self._spread(original_node, updated_node))
        return updated_node

    def _holds_one(self, smalls: Sequence[cst.BaseSmallStatement]) -> bool:
        return any(id(small) in self._actions for small in smalls)

    def _block(self, original: Any, updated: Any) -> Any:
        body: list[Line] = []
        for line, new in zip(original.body, updated.body, strict=True):
            if isinstance(line, cst.SimpleStatementLine):
                body += self._line(line) if self._holds_one(line.body) else [new]
            else:
                body += self._compound(line, new) if id(line) in self._actions else [new]
        if isinstance(original, cst.IndentedBlock):
            body += _pass_when_empty(body)
        return updated.with_changes(body=body)

    def _compound(
        self, original: cst.BaseCompoundStatement, updated: cst.BaseCompoundStatement
    ) -> Iterator[Line]:
        actions = self._carried_out(original)
        yield from updated.leading_lines
        yield from self._inserted(actions.before)
        if actions.off is None:
            yield updated.with_changes(leading_lines=())
        else:
            text = self._text(original.with_changes(leading_lines=()))
            first = self._places[id(original)] - self._above(original)
            last = first + len(_split_tail(text)[0])
            yield from self._off(first, last)
            yield from self._replacement(actions.off)
            yield from map(physical, self._lines[last - 1 : first + text.count("\n") - 1])
        yield from self._inserted(actions.after)

    def _line(self, line: cst.SimpleStatementLine) -> Iterator[Line]:
        bare = line.with_changes(leading_lines=())
        yield from line.leading_lines
        yield from self._inserted(self._of(line.body[0]).before)
        if self._keeps_whole(line.body):
            yield bare
            for small in line.body:
                yield from self._inserted(self._carried_out(small).after)
        else:
            first = self._places[id(line.body[0])]
            yield from self._off(first, first + self._text(bare).count("\n"))
            yield from self._one_by_one(line.body)

    def _spread(self, original: Any, updated: Any) -> dict[str, Any]:
        """Changes that turn ``header: a; b`` into a block, with its physical lines switched off."""
        suite: cst.SimpleStatementSuite = original.body
        header = self._header(original)
        body = [*self._inserted(self._of(suite.body[0]).before), *self._one_by_one(suite.body)]
        body += _pass_when_empty(body)
        ahead = (header + suite.leading_whitespace.value).count("\n")
        first = self._places[id(suite.body[0])] - ahead
        lead = self._off(first, first + (header + self._text(suite)).count("\n"))
        if "\n" in header:  # its lines cannot carry a marker each
            lead.append(comment_line(BEGIN))
            body.append(comment_line(END))
        ends = cst.TrailingWhitespace() if "\n" in header else marked_end()
        where = "lines_after_decorators" if getattr(updated, "decorators", ()) else "leading_lines"
        return {
            "body": cst.IndentedBlock(header=ends, body=body),  # type: ignore[arg-type]
            where: (*getattr(updated, where), *lead),
        }

    def _header(self, node: Any) -> str:
        """The text from the keyword up to the colon of a one-line suite's header."""
        if isinstance(node, (cst.Try, cst.TryStar)):
            return "try" + node.whitespace_before_colon.value + ":"
        # LibCST prints no header by itself: it is printed with a stub, which is cut off.
        stub = cst.SimpleStatementSuite([cst.Pass()], leading_whitespace=cst.SimpleWhitespace(""))
        without = {"leading_lines": (), "decorators": (), "lines_after_decorators": ()}
        changes = {"body": stub, "orelse": None, **without}
        changes = {name: value for name, value in changes.items() if hasattr(node, name)}
        return self._text(node.with_changes(**changes)).rpartition("pass")[0]

    def _keeps_whole(self, smalls: Sequence[cst.BaseSmallStatement]) -> bool:
        """Whether a line can stay as it is: nothing off, nothing inserted between statements."""
        return not (
            any(self._of(small).off for small in smalls)
            or any(self._of(small).before for small in smalls[1:])
            or any(self._of(small).after for small in smalls[:-1])
        )

    def _one_by_one(self, smalls: Sequence[cst.BaseSmallStatement]) -> Iterator[Line]:
        """Repeat the surviving statements of a switched-off line, with what is inserted."""
        for index, small in enumerate(smalls):
            actions = self._carried_out(small)
            if index:
                yield from self._inserted(actions.before)
            if actions.off is None:
                yield from snippet(self._small_text(small))
            else:
                yield from self._replacement(actions.off)
            yield from self._inserted(actions.after)

    def _replacement(self, off: Edit) -> Sequence[Line]:
        return snippet(off.code) if off.kind is Kind.DISABLE else ()

    def _inserted(self, edits: Sequence[Edit]) -> Iterator[Line]:
        for edit in edits:
            if edit.kind is Kind.PRELUDE:
                yield comment_line(f"{MARKER} prelude {len(self._preludes)}")
                self._preludes.append(prelude(edit.code, self._module.default_newline))
            elif edit.kind is Kind.MOVE_AFTER and edit.at is not None:
                yield from snippet(self._moved_text(edit.at))
            else:
                yield from snippet(edit.code)

    def _moved_text(self, where: Statement) -> str:
        node = self._nodes[where]
        if isinstance(node, cst.BaseSmallStatement):
            return self._small_text(node)
        lines, _ = _split_tail(self._text(node.with_changes(leading_lines=())))
        # A last line may continue into a blank one, which is not moved.
        return "\n".join(lines).rstrip("\\")

    def _small_text(self, small: cst.BaseSmallStatement) -> str:
        return self._text(small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT))

    def _off(self, first: int, behind: int) -> list[cst.EmptyLine]:
        """Lines of the original from one to ahead of another, switched off."""
        return [physical(switch_off(line)) for line in self._lines[first - 1 : behind - 1]]

    def _above(self, node: cst.BaseCompoundStatement) -> int:
        """Lines of a statement ahead of its keyword: its decorators."""
        above = (*getattr(node, "decorators", ()), *getattr(node, "lines_after_decorators", ()))
        return sum(self._text(each).count("\n") for each in above)

    def _of(self, node: cst.CSTNode) -> Actions:
        return self._actions.get(id(node), _NO_ACTIONS)

    def _carried_out(self, node: cst.CSTNode) -> Actions:
        self.left.pop(id(node), None)
        return self._of(node)

    def _text(self, node: cst.CSTNode) -> str:
        # The file's own newlines come back when its lines are printed as part of the module.
        return _NEWLINE.sub("\n", self._module.code_for_node(node))


def _pass_when_empty(body: Sequence[Line]) -> list[Line]:
    if all(isinstance(line, cst.EmptyLine) for line in body):
        return [cst.SimpleStatementLine([cst.Pass()], trailing_whitespace=marked_end())]
    return []


def _split_tail(text: str) -> tuple[list[str], list[str]]:
    """Split the lines of a statement from the blank and comment lines that end its last block."""
    lines = text.removesuffix("\n").split("\n")
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return lines[:end], lines[end:]
