"""torch's own marks, on real torch: what is waited for and stepped is seen, and left as it was."""

from __future__ import annotations

import linecache
import threading
import time
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make test installs it")

from instrumentor.runtime.recorder.marks import DATA, OPTIMIZER, Marks  # noqa: E402


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


def test_torch_s_functions_are_put_back() -> None:
    mark = torch.autograd.profiler.record_function
    before = mark.__enter__, mark.__exit__
    marks = Marks()
    marks.on()
    assert (mark.__enter__, mark.__exit__) != before
    marks.off()
    assert (mark.__enter__, mark.__exit__) == before
