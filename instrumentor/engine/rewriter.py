"""The pass of LibCST that carries out all edits.

Disabled lines leave only placeholders here: which original line each of them stands for follows
from their order, and :mod:`instrumentor.engine.original_bytes` fills the bytes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import libcst as cst

from instrumentor.edits import Edit, Kind, Statement
from instrumentor.engine.actions import Actions, Gathered
from instrumentor.engine.pairs import Node
from instrumentor.engine.snippets import (
    Snippet,
    comment_line,
    make_opaque,
    make_snippet,
    marked_end,
)
from instrumentor.marks import BEGIN, END, OFF, OPAQUE

Line: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement

#: Of a compound statement, each with a block; and the blocks.
_PARTS = {
    *(cst.Module, cst.IndentedBlock, cst.Else, cst.ExceptHandler, cst.ExceptStarHandler),
    *(cst.Finally, cst.MatchCase),
}
_NO_ACTIONS = Actions()
_INDENT = "    "  # of inserted code


class _Body:
    """A block in the making: comment lines wait here for the statement that they will lead."""

    def __init__(self) -> None:
        self.statements: list[Line] = []
        self.waiting: list[cst.EmptyLine] = []

    def add_lines(self, lines: Iterable[cst.EmptyLine]) -> None:
        self.waiting.extend(lines)

    def add(self, statement: Line) -> None:
        if self.waiting:
            leading = (*self.waiting, *statement.leading_lines)
            statement = statement.with_changes(leading_lines=leading)
            self.waiting = []
        self.statements.append(statement)

    def add_snippet(self, snippet: Snippet) -> None:
        self.add_lines(snippet.before)
        for statement in snippet.statements:
            self.add(statement)
        self.add_lines(snippet.after)

    def add_pass_when_empty(self) -> None:
        if not self.statements:
            self.add(cst.SimpleStatementLine([cst.Pass()], trailing_whitespace=marked_end()))


class Rewriter(cst.CSTTransformer):
    """Carries out the gathered edits of one module, in one pass over its blocks.

    ``nodes`` are those of all statements, ``around`` the statements that hold an edited one.

    Attributes:
        opaque: the blocks that stand as numbered placeholders in the rewritten module.
    """

    def __init__(
        self,
        module: cst.Module,
        gathered: Gathered,
        nodes: Mapping[Statement, Node],
        around: Iterable[Statement],
    ) -> None:
        super().__init__()
        self.opaque: list[str] = []
        self._module = module
        self._alone = gathered.alone
        self._nodes = nodes
        self._actions = {id(nodes[where]): actions for where, actions in gathered.at.items()}
        self._around = {id(nodes[where]) for where in around}

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Blocks around an edit alone: a line or a header holds no statement to be edited."""
        return type(node) in _PARTS or id(node) in self._around

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Put together what was inserted, switched off and moved here."""
        body = _Body()
        if isinstance(original_node, cst.Module):
            self._insert(body, self._alone)
        elif not isinstance(original_node, cst.IndentedBlock):
            suite = getattr(original_node, "body", None)
            if isinstance(suite, cst.SimpleStatementSuite) and self._holds_one(suite.body):
                return updated_node.with_changes(**self._spread(original_node, updated_node))
            return updated_node
        for original, updated in zip(original_node.body, updated_node.body, strict=True):
            self._add(body, original, updated)
        if isinstance(original_node, cst.IndentedBlock):
            body.add_pass_when_empty()
        return updated_node.with_changes(
            body=body.statements, footer=(*body.waiting, *updated_node.footer)
        )

    def _holds_one(self, smalls: Sequence[cst.BaseSmallStatement]) -> bool:
        return any(id(small) in self._actions for small in smalls)

    def _add(self, body: _Body, line: Line, updated: Line) -> None:
        if isinstance(line, cst.SimpleStatementLine):
            self._add_line(body, line)
            return
        if id(line) not in self._actions:
            body.add(updated)
            return
        actions = self._of(line)
        bare = line.with_changes(leading_lines=())
        body.add_lines(updated.leading_lines)
        self._insert(body, actions.before)
        if actions.off is None:
            body.add(updated.with_changes(leading_lines=()))
        else:
            lines, tail = _split_tail(self._text(bare))
            body.add_lines(comment_line(OFF) for _ in lines)
            self._replace(body, actions.off)
            body.add_lines(map(_literal_line, tail))
        self._insert(body, actions.after)

    def _add_line(self, body: _Body, line: cst.SimpleStatementLine) -> None:
        if not self._holds_one(line.body):
            body.add(line)
            return
        bare = line.with_changes(leading_lines=())
        body.add_lines(line.leading_lines)
        self._insert(body, self._of(line.body[0]).before)
        if self._keeps_whole(line.body):
            body.add(bare)
            self._insert(body, self._of(line.body[-1]).after)
        else:
            body.add_lines(_off(self._text(bare)))
            self._add_one_by_one(body, line.body)

    def _spread(self, original: Any, node: Any) -> dict[str, Any]:
        """Changes that turn ``header: a; b`` into a block, with its physical lines switched off."""
        suite: cst.SimpleStatementSuite = original.body
        header = self._header(original)
        body = _Body()
        self._insert(body, self._of(suite.body[0]).before)
        self._add_one_by_one(body, suite.body)
        body.add_pass_when_empty()
        lead = _off(header + self._text(suite))
        if "\n" in header:  # its lines cannot carry a marker each
            lead.append(comment_line(BEGIN))
            body.add_lines([comment_line(END)])
        block = cst.IndentedBlock(
            header=cst.TrailingWhitespace() if "\n" in header else marked_end(),
            body=body.statements,
            footer=body.waiting,
        )
        where = "lines_after_decorators" if getattr(node, "decorators", ()) else "leading_lines"
        return {"body": block, where: (*getattr(node, where), *lead)}

    def _header(self, node: Any) -> str:
        """The text from the keyword up to the colon of a one-line suite's header."""
        if isinstance(node, (cst.Try, cst.TryStar)):
            return "try" + node.whitespace_before_colon.value + ":"
        without = {"leading_lines": (), "decorators": (), "lines_after_decorators": ()}
        stub = cst.SimpleStatementSuite([cst.Pass()], leading_whitespace=cst.SimpleWhitespace(""))
        changes: dict[str, Any] = (
            {"body": stub, "orelse": None} if hasattr(node, "orelse") else {"body": stub}
        )
        changes.update({name: none for name, none in without.items() if hasattr(node, name)})
        return self._text(node.with_changes(**changes)).removesuffix("pass\n")

    def _keeps_whole(self, smalls: Sequence[cst.BaseSmallStatement]) -> bool:
        """Whether a line can stay as it is: nothing off, nothing inserted between statements."""
        return not (
            any(self._of(small).off for small in smalls)
            or any(self._of(small).before for small in smalls[1:])
            or any(self._of(small).after for small in smalls[:-1])
        )

    def _add_one_by_one(self, body: _Body, smalls: Sequence[cst.BaseSmallStatement]) -> None:
        """Repeat the surviving statements of a switched-off line, with what is inserted."""
        for index, small in enumerate(smalls):
            actions = self._of(small)
            if index:
                self._insert(body, actions.before)
            if actions.off is None:
                body.add_snippet(make_snippet(self._small_text(small)))
            else:
                self._replace(body, actions.off)
            self._insert(body, actions.after)

    def _replace(self, body: _Body, off: Edit) -> None:
        if off.kind is Kind.DISABLE:
            body.add_snippet(make_snippet(off.code))

    def _insert(self, body: _Body, edits: Sequence[Edit]) -> None:
        for edit in edits:
            if edit.kind is Kind.MOVE_AFTER:
                assert edit.at is not None
                code = self._moved_text(edit.at)
            else:
                code = edit.code
            if edit.kind is not Kind.PRELUDE:
                body.add_snippet(make_snippet(code))
            elif self._module.default_indent == _INDENT:
                body.add_lines([comment_line(f"{OPAQUE}{len(self.opaque)}")])
                self.opaque.append(make_opaque(code))
            else:
                body.add_snippet(make_snippet(code, as_block=True))

    def _moved_text(self, where: Statement) -> str:
        node = self._nodes[where]
        if isinstance(node, cst.BaseSmallStatement):
            return self._small_text(node)
        lines, _ = _split_tail(self._text(node.with_changes(leading_lines=())))
        # A last line may continue into a blank one, which is not moved.
        return "\n".join(lines).rstrip("\\")

    def _small_text(self, small: cst.BaseSmallStatement) -> str:
        return self._text(small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT))

    def _of(self, node: cst.CSTNode) -> Actions:
        return self._actions.get(id(node), _NO_ACTIONS)

    def _text(self, node: cst.CSTNode) -> str:
        return self._module.code_for_node(node)


def _off(text: str) -> list[cst.EmptyLine]:
    return [comment_line(OFF) for _ in range(text.count("\n"))]


def _split_tail(text: str) -> tuple[list[str], list[str]]:
    """Split the lines of a statement from the blank and comment lines that end its last block."""
    lines = text.removesuffix("\n").split("\n")
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return lines[:end], lines[end:]


def _literal_line(text: str) -> cst.EmptyLine:
    comment = text.strip()
    return cst.EmptyLine(comment=cst.Comment(comment) if comment else None)
