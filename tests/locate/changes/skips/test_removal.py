"""Reads that never run, or run when all samples are taken, keep no evaluation in the run."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from tests.locate.cases import HEAD, plan_of

#: A script of the kind that keeps its rows to write them at the end.
SCRIPT = """\
import json
import pandas as pd

class Log:
    def __init__(self):
        self.rows = []
    def note(self, step, loss):
        self.rows.append({"step": step, "loss": loss})
    def finish(self):
        pd.DataFrame(self.rows).to_csv("rows.csv")
    def best(self):
        return min(row["loss"] for row in self.rows)
    def show(self):
        print(self.rows)
    def last(self):
        print(self.rows[-1])

def validate(model):
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            total = model(x).sum()
    model.train()
    return total.item()

def train(model, log):
    step = 0
    try:
        log.note(step, validate(model))
        for epoch in range(3):
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                step += 1
                log.note(step, loss.item())
                {inside}
            {between}
        {behind}
    finally:
        {finally_}

train(model, Log())
{after}
"""


def initial(
    inside: str = "pass",
    between: str = "pass",
    behind: str = "pass",
    finally_: str = "pass",
    after: str = "",
) -> list[int]:
    """Lines of the validations that go from a script with these statements."""
    parts = {"inside": inside, "between": between, "behind": behind, "finally_": finally_}
    source = HEAD + SCRIPT.replace("{after}", after)
    for name, text in parts.items():
        indent = next(x for x in source.splitlines() if f"{{{name}}}" in x).partition("{")[0]
        source = source.replace(f"{{{name}}}", textwrap.indent(text, indent).lstrip())
    return list(plan_of(source)["skipped_validation"])


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("finally_", "log.finish()"),
        ("finally_", "json.dump(log.rows, open('rows.json', 'w'))"),
        ("finally_", "print(f'rows: {log.rows}')"),
        ("finally_", "log.show()"),
        ("behind", "log.finish()"),
        ("behind", "scale(log.rows[-1])"),
        ("behind", "print(log.best())"),
    ],
)
def test_what_is_read_behind_the_last_sample_keeps_nothing(place: str, text: str) -> None:
    assert initial(**{place: text}) == [36]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("inside", "optimizer.lr = log.rows[-1]['loss']"),
        ("inside", "if log.best() < 1:\n    break"),
        ("inside", "log.show()"),
        ("between", "if log.best() < 1:\n    break"),
        ("between", "scale(log.rows)"),
        ("between", "loader = samples(log.rows)"),
        ("finally_", "log.last()"),
        ("finally_", "print(log.best())"),
        ("finally_", "scale(log.rows)"),
        ("after", "train(model, Log())"),
    ],
)
def test_what_is_read_between_the_samples_or_may_fail_behind_them_keeps_it(
    place: str, text: str
) -> None:
    if place == "after":  # the code behind the loops of the first call runs ahead of the second
        assert initial(behind="print(log.best())") == [36]
        assert initial(behind="print(log.best())", after=text) == []
    else:
        assert initial(**{place: text}) == []


def test_code_behind_the_loop_of_a_function_that_is_called_for_each_epoch_counts() -> None:
    source = HEAD + textwrap.dedent(
        """\
        rows = []
        def validate():
            model.eval()
            with torch.no_grad():
                for x, y in val_loader:
                    rows.append(model(x).sum())
            model.train()
        def epoch():
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                validate()
            {}
        for number in range(3):
            epoch()
        {}
        """
    )
    assert plan_of(source.format("optimizer.lr = rows[-1]", ""))["skipped_validation"] == []
    assert plan_of(source.format("pass", "optimizer.lr = rows[-1]"))["skipped_validation"] == [20]


@pytest.mark.parametrize(
    ("base", "use", "goes"),
    [
        ("", "", True),
        ("", "scale(log.summary())", False),
        ("", "scale(getattr(log, 'summary')())", False),
        ("", "scale(getattr(log, name)())\nname = 'summary'", False),
        ("", "scale(log.summary)", False),
        ("", "scale(getattr(log, f'sum{kind}')())\nkind = 'mary'", False),
        ("", "scale(getattr(log, f'on_{kind}')())\nkind = 'summary'", True),
        ("", "scale(getattr(torch, name)())\nname = 'summary'", True),
        ("", "import train\nscale(getattr(train, name)())\nname = 'summary'", True),
        ("", "scale(getattr(loader, name)())\nname = 'summary'", True),
        ("", "scale(Other().first)", True),
        ("(torch.nn.Module)", "", False),
        ("(library.Callback)", "", False),
        ("(metaclass=library.Registry)", "", False),
    ],
)
def test_what_nobody_calls_reads_nothing(base: str, use: str, goes: bool) -> None:
    source = (
        HEAD
        + textwrap.dedent(
            f"""\
        import library
        class Log{base}:
            def __init__(self):
                self.rows = []
            def note(self, value):
                self.rows.append(value)
            def summary(self):
                return scale(self.rows)
        class Other:
            def __getattr__(self, name):
                return getattr(inside, name)
        inside = load()
        loader = torch.utils.data.DataLoader([])
        log = Log()
        def validate():
            model.eval()
            with torch.no_grad():
                for x, y in val_loader:
                    log.note(model(x).sum())
            model.train()
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            validate()
        """
        )
        + textwrap.indent(use, "    ")
    )
    assert bool(plan_of(source)["skipped_validation"]) is goes


def test_of_a_function_that_the_script_does_not_call_nothing_is_known(tmp_path: Path) -> None:
    source = HEAD + textwrap.dedent(
        """\
        rows = []
        def validate():
            model.eval()
            with torch.no_grad():
                for x, y in val_loader:
                    rows.append(model(x).sum())
            model.train()
        def hook():
            return scale(rows)
        def train():
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                validate()
        """
    )
    script = tmp_path / "train.py"
    script.write_text(source)
    assert not locate_file(script, Options(), [tmp_path]).skipped
    script.write_text(f"{source}train()\n")
    assert locate_file(script, Options(), [tmp_path]).skipped
