"""What has run before a piece reads nothing of it, unless somebody kept what was read."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import HEAD, plan_of

#: A script that keeps a list of its checkpoints, and resumes from the last one.
SCRIPT = """\
class Keeper:
    def __init__(self):
        self.saved = []
    def save(self, step):
        path = f"{step}.pt"
        torch.save(model.state_dict(), path)
        self.saved.append({"path": path, "score": []})
        self.saved = self.saved[-3:]
    def resume(self):
        if not self.saved:
            return None
        last = self.saved[-1]
        return self.load(last["path"])
    def load(self, path):
        state = torch.load(path)
        model.load_state_dict(state)
        return state["epoch"]
    def count(self):
        return len(self.saved)
    def rows(self):
        return self.saved
    def paths(self):
        return (row["path"] for row in self.saved)
    def walk(self):
        for row in self.saved:
            yield row

{helpers}
def train(keeper):
    {ahead}
    for epoch in range(3):
        {around}
        for x, y in loader:
            {inside}
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            keeper.save(epoch)

train(Keeper())
"""

HELPERS = {
    "later": "def later(keeper):\n    return lambda: keeper.saved[-1]\n",
    "Net": (
        "class Net(torch.nn.Module):\n    def __init__(self, keeper):\n"
        "        super().__init__()\n        print(keeper.saved[-1])\n"
    ),
    "inner": "def inner(keeper):\n    def best(): return keeper.saved[-1]\n    return best\n",
}
#: What stands ahead of the loops, in the loop around, and in the loop.
GOES = {
    "nothing": ("pass", "pass", "pass"),
    "resumed": ("keeper.resume()", "pass", "pass"),
    "resumed_at": ("first = keeper.resume()", "print(first)", "pass"),
    "counted": ("before = keeper.count()", "pass", "print(before)"),
    "asked": ("if len(keeper.saved) > 3:\n    print(keeper.saved[0])", "pass", "pass"),
    "shown_in_a_text": ("print('{}'.format(keeper.saved))", "pass", "pass"),
    "by_a_constructor": ("Net(keeper)", "pass", "pass"),
    "copied_out": ("path = str(keeper.saved)", "pass", "print(path)"),
    "its_own_loop": ("for row in keeper.saved:\n    print(row)", "pass", "pass"),
}
STAYS = {
    "read_in_the_loop": ("pass", "pass", "print(keeper.count())"),
    "read_in_the_loop_around": ("pass", "keeper.resume()", "pass"),
    "read_ahead_and_in_the_loop": ("keeper.resume()", "pass", "keeper.resume()"),
    "another_name": ("rows = keeper.saved", "pass", "if len(rows) > 2:\n    y = y * 2"),
    "another_name_by_a_method": ("rows = keeper.rows()", "pass", "y = y * len(rows)"),
    "in_a_container": ("kept['rows'] = keeper.saved", "pass", "y = y * len(kept['rows'])"),
    "in_a_list": ("kept = [keeper.saved]", "pass", "y = y * len(kept[0])"),
    "in_an_attribute": ("other.rows = keeper.saved", "pass", "y = y * len(other.rows)"),
    "an_element": ("last = keeper.saved[-1]", "pass", "y = y * len(last['score'])"),
    "a_slice": ("last = keeper.saved[:1]", "pass", "y = y * len(last)"),
    "given_to_a_library": ("watch.over(keeper.saved)", "pass", "y = y * watch.scale()"),
    "an_object_holds_it": ("kept = Box(keeper.saved)", "pass", "y = y * kept.scale()"),
    "a_lambda": ("last = later(keeper)", "pass", "y = y * len(last())"),
    "a_lambda_here": ("last = lambda: keeper.saved", "pass", "y = y * len(last())"),
    "a_closure": ("last = inner(keeper)", "pass", "y = y * len(last())"),
    "a_generator": ("rows = keeper.walk()", "pass", "y = y * len(next(rows))"),
    "a_generator_expression": ("rows = keeper.paths()", "pass", "y = y * len(next(rows))"),
    "by_a_constructor_in_the_loop": ("Net(keeper)", "pass", "Net(keeper)"),
    "by_a_constructor_that_a_library_has": ("Net(keeper)", "pass", "y = make(Net)"),
    "called_on_who_knows_what": ("keeper.count()", "pass", "y = y * found().count()"),
    "looked_up_by_text": ("keeper.count()", "pass", "y = y * getattr(keeper, 'count')()"),
    "walked_over_later": ("rows = iter(keeper.saved)", "pass", "y = y * len(next(rows))"),
}


def saves_that_go(ahead: str, around: str, inside: str) -> list[int]:
    helpers = "".join(text for name, text in HELPERS.items() if f"{name}(" in ahead)
    source = HEAD + SCRIPT.replace("{helpers}\n", helpers)
    for name, text in (("ahead", ahead), ("around", around), ("inside", inside)):
        indent = next(x for x in source.splitlines() if f"{{{name}}}" in x).partition("{")[0]
        source = source.replace(f"{{{name}}}", textwrap.indent(text, indent).lstrip())
    return list(plan_of(source)["skipped_checkpoints"])


@pytest.mark.parametrize("name", GOES)
def test_what_is_read_ahead_of_it_keeps_no_save(name: str) -> None:
    assert saves_that_go(*GOES[name])


@pytest.mark.parametrize("name", STAYS)
def test_a_save_stays_where_what_was_read_is_used_later(name: str) -> None:
    assert not saves_that_go(*STAYS[name])
