"""Which op makes a step's graph another one: of updates whose calls the test makes up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.runtime.recorder import repeats
from instrumentor.runtime.recorder.repeats import (
    COMPARED,
    HASHED,
    Call,
    Repeats,
    Update,
    difference,
    different,
)
from tests.runtime.recorder.tensors import Tensor

XLA = SimpleNamespace(type="xla")
#: Op, whether it is a view, shape, number.
Made = tuple[str, bool, tuple[int, ...], float]
MODEL: list[Made] = [
    ("aten::_to_copy", False, (4, 8), 0), ("aten::t", True, (8, 2), 0),
    ("aten::addmm", False, (4, 2), 0), ("aten::pow", False, (4, 2), 2),
    ("aten::addcdiv_", False, (2, 8), 0.1),
]  # fmt: skip


def function(op: str, view: bool) -> Any:
    """As much of torch's op as is looked at."""
    returned = SimpleNamespace(alias_info=SimpleNamespace(is_write=False) if view else None)
    name = f"{op}.Tensor"
    return SimpleNamespace(name=lambda: name, _schema=SimpleNamespace(returns=[returned]))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is written of updates, each with its calls; a call's graph is its hash."""

    def find(*updates: list[Made], graphs: Any = lambda made: 0) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = []
        graph: dict[str, Any] = {}
        monkeypatch.setattr(repeats, "enter_dispatch", lambda seen: "a mode")
        monkeypatch.setattr(repeats, "leave_dispatch", lambda mode: None)
        monkeypatch.setattr(repeats, "graph_of", lambda out: graph["now"])
        marks = SimpleNamespace(stepped=[])
        records = SimpleNamespace(rank=None, write=lambda event, **facts: written.append(facts))
        under_test = Repeats(
            records, SimpleNamespace(device="xla"), SimpleNamespace(recompiled=7), marks, True
        )  # type: ignore[arg-type]
        under_test.start()
        for update in updates:
            under_test.enter(None)
            under_test.begin(None)
            if under_test.enough():
                break
            for made in update:
                op, view, shape, number = made
                graph["now"] = graphs(made)
                tensor = Tensor(shape, "torch.float32", XLA)
                under_test.seen(function(op, view), (tensor, number), {}, tensor, None)
            marks.stepped.append(0)
        under_test.begin(None)
        assert under_test.enough()
        under_test.stop()
        return written

    return find


def changed(at: int, **to: Any) -> list[Made]:
    """The model's calls with one that is another."""
    calls = [list(each) for each in MODEL]
    for name, value in to.items():
        calls[at][("op", "view", "shape", "number").index(name)] = value
    return [tuple(each) for each in calls]  # type: ignore[misc]


def test_a_shape_that_changes_is_named_at_the_first_op_that_has_it(found: Any) -> None:
    after = [(op, view, (5, *shape[1:]), number) for op, view, shape, number in MODEL]
    (cause,) = found(MODEL, after)
    assert cause["kind"] == "new graph" and cause["count"] == 7
    assert cause["what"] == "aten::_to_copy: shape 4x8, then 5x8"


def test_a_number_that_is_part_of_the_graph_is_told_from_those_that_are_inputs(found: Any) -> None:
    def update(step: int) -> list[Made]:
        calls = changed(3, number=step)
        calls[4] = ("aten::addcdiv_", False, (2, 8), 0.1 * step)
        return calls

    # The hash has in it what the power is, and nothing of the optimizer's number.
    hashed = found(*map(update, range(6)), graphs=lambda made: made[3] if "pow" in made[0] else 0)
    assert [each["what"] for each in hashed] == ["aten::pow: 2, then 3"]
    assert found(*map(update, range(COMPARED + HASHED))) == []


def test_a_view_s_numbers_are_part_of_the_graph_and_its_order_says_nothing(found: Any) -> None:
    before = [("aten::slice_copy", False, (4, 8), 3), *MODEL]
    after = [MODEL[0], ("aten::slice", True, (4, 8), 4), *MODEL[1:]]
    (cause,) = found(before, after)
    assert cause["what"] == "aten::slice: 3, then 4"
    again = [MODEL[0], ("aten::t_copy", False, (8, 2), 0), *MODEL[1:]]
    assert found(MODEL, again, MODEL, again) == []


def test_ops_of_another_device_and_torch_xla_s_own_are_no_ops_of_the_graph(found: Any) -> None:
    own = ("aten::_propagate_xla_data", False, (4, 8), 0)
    assert found(MODEL, [own, *MODEL]) == []
    update, call = Update(), Call("aten::add", False, (), (), (), None)
    update.add(call)
    assert update.ops == [call]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([MODEL[2]], [MODEL[3]], "aten::pow: where the step before called aten::addmm"),
        ([MODEL[0]], [MODEL[0], MODEL[2]], "aten::addmm: where the step before called"),
        ([MODEL[0], MODEL[0]], [MODEL[0]], "called with more, or less, than before"),
    ],
)
def test_other_ops_and_more_ops(
    found: Any, before: list[Made], after: list[Made], words: str
) -> None:
    (cause,) = found(before, after)
    assert words in cause["what"]


def test_a_data_type_that_changes() -> None:
    one, other = (
        Call("aten::mm", False, ((kind, (2, 2)),), (), (), None) for kind in ("float32", "bfloat16")
    )
    before, after = Update(), Update()
    before.add(one)
    after.add(other)
    assert list(different(before, after)) == [(one, other)]
    assert difference(one, other) == "float32, then bfloat16"


@pytest.mark.parametrize(
    ("device", "recompiled", "wanted", "rank", "due"),
    [
        ("xla", 2, True, None, True),
        ("xla", 1, True, None, False),
        ("cpu", 9, True, None, False),  # nothing is traced there
        ("xla", 9, False, None, False),
        ("xla", 9, True, 0, False),
    ],
)
def test_only_steps_that_compile_again_and_again_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    recompiled: int,
    wanted: bool,
    rank: int | None,
    due: bool,
) -> None:
    monkeypatch.setitem(repeats.sys.modules, "torch", SimpleNamespace())  # type: ignore[attr-defined]
    monkeypatch.setattr(repeats, "compiles", lambda: False)
    under_test = Repeats(
        SimpleNamespace(rank=rank), SimpleNamespace(device=device),
        SimpleNamespace(recompiled=recompiled), SimpleNamespace(stepped=[]), wanted,
    )  # type: ignore[arg-type]  # fmt: skip
    assert under_test.due("fwd+bwd", False) is due
