"""Paths through the statements of an iteration."""

from __future__ import annotations

import ast

import pytest

from instrumentor.read.control_flow import END, LEFT, NEXT, OVER, RAISED, START, Flow


class Body:
    """A body whose simple statements are single names: `a`, `b`, or end in a comment `# name`."""

    def __init__(self, text: str) -> None:
        self.flow = Flow(ast.parse(text).body)
        lines = text.splitlines()
        self.named: dict[str, ast.stmt] = {}
        for statement in self.flow.statements:
            line = lines[statement.lineno - 1]
            name = line.partition("#")[2].strip() or line.strip()
            self.named.setdefault(name, statement)

    def __getitem__(self, name: str) -> ast.stmt:
        return self.named[name]


BRANCHES = """\
a
if x:  # test
    b
    continue
elif y:  # other
    c
d
"""


def test_branches_exclude_each_other() -> None:
    body = Body(BRANCHES)
    flow = body.flow
    assert flow.exclusive(body["b"], body["c"])
    assert flow.exclusive(body["b"], body["d"])  # by the `continue`
    assert not flow.exclusive(body["c"], body["d"])
    assert not flow.exclusive(body["test"], body["b"])
    assert flow.before(ast.Pass()) == END  # what is not in the body comes after it
    assert not flow.exclusive(body["a"], ast.Pass())


@pytest.mark.parametrize(
    ("start", "goal", "avoiding", "found"),
    [
        (START, "d", ["c"], True),
        (START, "d", ["a"], False),  # `a` dominates
        (START, END, ["d"], False),
        (START, NEXT, ["d"], True),
        ("b", "d", [], False),
        ("c", END, ["d"], False),  # `d` post-dominates `c`
    ],
)
def test_paths(start: str | int, goal: str | int, avoiding: list[str], found: bool) -> None:
    body = Body(BRANCHES)
    first = start if isinstance(start, int) else body.flow.after(body[start])
    last = goal if isinstance(goal, int) else body.flow.before(body[goal])
    assert body.flow.path(first, last, {body.flow.before(body[n]) for n in avoiding}) is found


def test_the_order_is_that_of_the_source() -> None:
    flow = Body("try:\n    a\nexcept E:\n    b\nelse:\n    c\nfinally:\n    d\ne").flow
    assert [ast.unparse(s)[0] for s in flow.statements] == ["t", "a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("text", "always"),
    [
        ("if x:\n    a\nelse:\n    b", True),
        ("if x:\n    a", False),
        ("if x:\n    break\na", True),  # leaving is no end of the iteration
        ("if x:\n    continue\na", False),
        ("match x:\n    case 1:\n        a\n    case _:\n        b", True),
        ("match x:\n    case 1:\n        a", False),
        ("try:\n    a\nexcept E:\n    pass", True),  # that every call may fail says nothing
        ("try:\n    raise E\nexcept E:\n    a\nc", True),
        ("for x in y:\n    a", False),
        ("while True:\n    a\n    if x:\n        break", True),
        ("while x:\n    a", False),
        ("for x in y:\n    pass\nelse:\n    a", True),
        ("for x in y:\n    if z:\n        break\nelse:\n    a", False),
    ],
)
def test_what_no_path_to_the_end_avoids(text: str, always: bool) -> None:
    body = Body(text)
    met = [body[name] for name in ("a", "b") if name in body.named]
    assert body.flow.always(START, met) is always


def test_a_handler_may_follow_the_statements_it_guards() -> None:
    body = Body("try:\n    a\nexcept E:\n    b")
    assert not body.flow.exclusive(body["a"], body["b"])
    assert not body.flow.path(START, body.flow.before(body["b"]))


@pytest.mark.parametrize(
    ("last", "goal"),
    [
        ("break", LEFT),
        ("return", LEFT),
        ("raise E", RAISED),
        ("sys.exit(1)", RAISED),
        ("continue", NEXT),
        ("b", END),
    ],
)
def test_how_an_iteration_ends(last: str, goal: int) -> None:
    flow = Body(f"a\n{last}").flow
    assert [e for e in (END, NEXT, LEFT, RAISED) if flow.path(START, e)] == [goal]


def test_an_inner_loop_comes_round() -> None:
    body = Body("for x in y:  # loop\n    a\n    b\nc")
    flow = body.flow
    assert flow.reaches(body["b"], body["a"])
    assert not flow.path(flow.after(body["loop"]), flow.before(body["a"]))
    assert flow.later(body["loop"]) == [body["c"]]


def test_tests_that_decide() -> None:
    body = Body("a\nif log:  # log\n    b\nif x:  # skip\n    continue\nif y:  # last\n    c")
    flow = body.flow
    found = flow.deciders(flow.after(body["a"]), flow.before(body["c"]))
    assert found == [body["skip"], body["last"]]


def test_statements_between() -> None:
    body = Body("a\nif x:  # test\n    b\nelse:\n    c\nd\ne")
    assert body.flow.between(body["b"], body["e"]) == [body["d"]]


def test_a_known_test_has_one_way() -> None:
    text = "if x:\n    a\nelse:\n    b"
    known = Flow(ast.parse(text).body, lambda test: ast.unparse(test) == "x")
    assert not known.path(START, known.before(known.statements[2]))
    assert known.path(START, OVER)
