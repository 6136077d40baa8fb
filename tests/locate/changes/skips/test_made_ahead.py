"""What is made where it is not there yet is made no more once it has been made ahead."""

from __future__ import annotations

import pytest

from tests.locate.cases import HEAD, plan_of
from tests.locate.changes.test_skips import stays

#: A logger that is made once, by whoever comes first: with its class, and how it is kept.
OF_A_CLASS = """\
class Notes:
    current = None
    def __init__(self, folder="notes"):
        self.folder = folder
    def tell(self, value):
        print(self.folder, value)
def begin(folder="notes"):
    {at_first}
    Notes.current = {made}
def at_hand():
    if Notes.current is None:
        begin("default")
    return Notes.current
"""
OF_A_MODULE = """\
class Notes:
    def __init__(self, folder="notes"):
        self.folder = folder
    def tell(self, value):
        print(self.folder, value)
current = None
def begin(folder="notes"):
    {at_first}
    global current
    current = {made}
def at_hand():
    if current is not None:
        pass
    else:
        begin("default")
    return current
"""
SCRIPT = """\
def evaluate(net):
    net.eval()
    with torch.no_grad():
        at_hand().tell(net(torch.ones(4)).sum())
    net.train()
def main():
    {ahead}
    evaluate(model)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scale(at_hand())
        {inside}
{more}
main()
"""
#: what stands ahead in `main`, in its loop, beside it; what begins with, and what it makes
CASES = {
    "made_ahead": ("begin()", "pass", "", "pass", "Notes(folder)", True),
    "made_by_what_is_called_there": (
        "set_up()",
        "pass",
        "def set_up():\n    print('begins')\n    begin('here')",
        "pass",
        "Notes(folder)",
        True,
    ),
    "ended_by_what_nobody_calls": (
        "begin()",
        "pass",
        "def end():\n    global current\n    Notes.current = current = None",
        "pass",
        "Notes(folder)",
        True,
    ),
    "never_made": ("pass", "pass", "", "pass", "Notes(folder)", False),
    "made_in_a_branch": ("if ready:\n        begin()", "pass", "", "pass", "Notes(folder)", False),
    "made_unless_it_returns": (
        "begin()",
        "pass",
        "",
        "if ready:\n        return",
        "Notes(folder)",
        False,
    ),
    "made_behind_the_evaluation": ("pass", "begin()", "", "pass", "Notes(folder)", False),
    "asked_for_first": ("at_hand()\n    begin()", "pass", "", "pass", "Notes(folder)", False),
    "maybe_none": ("begin()", "pass", "", "pass", "Notes(folder) if folder else None", False),
    "ended_again": (
        "begin()",
        "end()",
        "def end():\n    global current\n    Notes.current = current = None",
        "pass",
        "Notes(folder)",
        False,
    ),
    "set_by_its_name": (
        "begin()",
        "setattr(Notes, name, None)\n        globals()[name] = None",
        "",
        "pass",
        "Notes(folder)",
        False,
    ),
}


@pytest.mark.parametrize("keeps", [OF_A_CLASS, OF_A_MODULE], ids=["class", "module"])
@pytest.mark.parametrize("name", CASES)
def test_what_has_been_made_ahead_is_not_made_by_an_evaluation(name: str, keeps: str) -> None:
    ahead, inside, more, at_first, made, goes = CASES[name]
    source = HEAD + keeps.format(at_first=at_first, made=made)
    source += SCRIPT.format(ahead=ahead, inside=inside, more=more)
    assert bool(plan_of(source)["skipped_validation"]) is goes, stays(source)
