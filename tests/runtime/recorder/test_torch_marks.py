"""torch's own marks, on real torch: what is waited for and stepped is seen, and left as it was."""

from __future__ import annotations

import linecache
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")

from instrumentor.runtime.recorder.torch_marks import (  # noqa: E402
    CLOSURE,
    DATA,
    HOOKS,
    NOT_TOLD,
    OPTIMIZER,
    UNTOLD,
    Marks,
)


@pytest.fixture
def marks() -> Iterator[Marks]:
    found = Marks()
    found.on()
    yield found
    found.off()


class Waits(torch.utils.data.Dataset):
    """Items that take two milliseconds each."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, at: int) -> float:
        time.sleep(0.002)
        return float(at)


def test_each_batch_of_a_loader_is_waited_for(marks: Marks) -> None:
    started = time.perf_counter()
    assert len(list(torch.utils.data.DataLoader(Waits(), batch_size=3))) == 2
    assert 0.012 <= marks.spent_s[DATA] <= time.perf_counter() - started
    assert marks.spent_s[OPTIMIZER] == 0


def test_which_optimizers_step(marks: Marks) -> None:
    weights = [torch.zeros(2, requires_grad=True) for _ in range(2)]
    optimizers = [torch.optim.SGD([each], lr=0.1) for each in weights]
    for each in weights:
        each.sum().backward()
    for number in (0, 1, 1):
        optimizers[number].step()
    assert marks.stepped == [0, 1, 1]
    assert marks.spent_s[OPTIMIZER] > 0


def test_gradients_that_are_let_go_have_their_line(marks: Marks) -> None:
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.zero_grad()  # there is none yet
    for keep in (True, False):
        weight.sum().backward()
        optimizer.zero_grad(set_to_none=not keep)
        assert (marks.dropped is None) is keep
    file, line, function = (marks.dropped or [("", 0, "")])[0]
    assert (file, function) == (__file__, "test_gradients_that_are_let_go_have_their_line")
    assert "set_to_none=not keep" in linecache.getline(file, line)


def test_other_threads_and_other_marks_are_no_wait(marks: Marks) -> None:
    thread = threading.Thread(target=lambda: list(torch.utils.data.DataLoader(Waits())))
    thread.start()
    thread.join()
    with torch.autograd.profiler.record_function("of the script's own"):
        time.sleep(0.001)
    assert marks.spent_s == {DATA: 0.0, OPTIMIZER: 0.0}


def test_a_step_within_a_mark_of_its_own_counts_once(marks: Marks) -> None:
    weight = torch.zeros(2, requires_grad=True)
    weight.sum().backward()
    with torch.autograd.profiler.record_function("enumerate(DataLoader)#outer"):
        torch.optim.SGD([weight], lr=0.1).step()
    assert marks.spent_s[OPTIMIZER] == 0 and marks.stepped == []
    assert marks.spent_s[DATA] > 0


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("kind", "calls"), [("SGD", 1), ("LBFGS", 3)])
def test_what_runs_in_a_step_s_closure_is_no_time_of_the_optimizer(
    marks: Marks, kind: str, calls: int, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now_ms[0] / 1000)
    weight = torch.ones(2, requires_grad=True)
    settings = {"max_iter": calls, "max_eval": calls} if kind == "LBFGS" else {}
    optimizer = getattr(torch.optim, kind)([weight], lr=0.01, **settings)
    said: list[tuple[str, bool]] = []
    marks.tell = lambda kind, opens: said.append((kind, opens))
    called = []

    def closure() -> object:
        """The script's."""
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        called.append(closure.__doc__)
        now_ms[0] += 100
        return loss

    def update(*_: object) -> None:
        now_ms[0] += 7

    optimizer.register_step_post_hook(update)
    loss = optimizer.step(closure=closure) if named else optimizer.step(closure)
    assert loss.item() == 2 and len(called) == calls
    assert marks.spent_s[OPTIMIZER] == pytest.approx(0.007)
    assert marks.stepped == [0] and not marks.open and not marks.kinds
    assert said[0] == (OPTIMIZER, True) and said[-1] == (OPTIMIZER, False)
    inside = said[said.index((CLOSURE, True)) : said.index((CLOSURE, False))]
    assert ("clearing", True) in inside and said.count((CLOSURE, True)) == calls
    assert not getattr(optimizer, HOOKS)  # as it was


def test_a_closure_that_raises_leaves_the_optimizer_as_it_was(marks: Marks) -> None:
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)

    def closure() -> float:
        raise KeyError

    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert not marks.open and not marks.kinds and not getattr(optimizer, HOOKS)


def test_where_torch_does_not_tell_of_the_closure_the_step_has_no_time() -> None:
    said: list[str] = []
    marks = Marks(said.append)
    marks.on()
    try:
        optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
        delattr(optimizer, HOOKS)
        frame = SimpleNamespace(f_locals={"args": (optimizer, lambda: 1.0), "kwargs": {}})
        assert marks.follow_closure(optimizer, frame) == UNTOLD and said == [NOT_TOLD]
        frame.f_locals["args"] = (optimizer,)
        assert marks.follow_closure(optimizer, frame) == OPTIMIZER
    finally:
        marks.off()


def test_torch_s_functions_are_put_back() -> None:
    mark = torch.autograd.profiler.record_function
    before = mark.__enter__, mark.__exit__
    marks = Marks()
    marks.on()
    assert (mark.__enter__, mark.__exit__) != before
    marks.off()
    assert (mark.__enter__, mark.__exit__) == before
