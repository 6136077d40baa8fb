"""A decline ends in commands that work: each parses, and names lines that can be timed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from instrumentor import Declined, Options, explain, rewrite
from instrumentor.cli import next_commands
from instrumentor.cli.app import application
from tests.locate.test_rules import SCRIPTS, SEVERAL

REFUSED = {
    **{name: source for name, (_, _, source) in SCRIPTS.items()},
    "several": SEVERAL,
}
#: Refusals whose loop can be timed line by line.
WITH_REGION = ("async_loop", "lbfgs", "compiled_step_decorator", "hidden_in_a_scaler")


def parsed(command: str) -> dict[str, Any]:
    """The parameters of a pasted command line, by Typer's own parser."""
    program, *words = shlex.split(command, comments=True)
    assert program == "instrument"
    group: Any = typer.main.get_command(application(words[:1]))
    with group.make_context(program, words) as context:
        name, verb, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        with verb.make_context(name, rest, parent=context) as inner:
            return dict(inner.params)


def offered(source: str, script: Path) -> list[str]:
    """The commands below the hint of a decline."""
    script.write_text(source)
    found = explain(script)
    assert not found.eligible
    hint = next_commands.instead(Declined(*found.reasons), script, Options(), [], [script.name])
    return [line.strip() for line in hint.splitlines() if line.strip().startswith("instrument ")]


@pytest.mark.parametrize("name", REFUSED)
def test_every_hint_is_a_command_that_works(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(next_commands, "_has_tracy", lambda *_: True)
    script = tmp_path / "train.py"
    commands = offered(REFUSED[name], script)
    last = "run --loop" if name == "several" else "profile python3 train.py"
    assert commands[-1].startswith(f"instrument {last}")
    for command in commands:
        choices = parsed(command)
        for option in ("region", "loop"):
            if choices.get(option):
                file, _, lines = choices[option].partition(":")
                assert file == script.name
                numbers = tuple(map(int, lines.split("-")))
                assert 1 <= numbers[0] <= numbers[-1] <= len(REFUSED[name].splitlines())
                options: Any = Options(**{option: (file, *numbers)})
                assert explain(script, options).eligible


def test_the_body_of_a_loop_that_is_declined_is_offered(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    regions = {
        name: [c for c in offered(source, script) if "--region" in c]
        for name, source in REFUSED.items()
    }
    assert all(regions[name] for name in WITH_REGION)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_hint_leaves_a_blank_to_fill_in(name: str) -> None:
    with pytest.raises(Declined) as declined:
        rewrite(SCRIPTS[name][2], filename="train.py")
    assert not any(blank in str(declined.value.hint) for blank in ("FILE", "SCRIPT", "LINE"))


def test_a_script_of_kernels_is_told_how_to_run_one(tmp_path: Path) -> None:
    kernel = "import ttl\n\n@ttl.operation(grid=(1, 1))\ndef k(a, y):\n    pass\n\nk(1, 2)\n"
    script = tmp_path / "add.py"
    script.write_text(kernel)
    typed = ["--steps", "3", "--python", "py"]
    command = next_commands.kernel_run(script, typed, ["add.py"])
    assert command.startswith("instrument kernel run --python py add.py  #")
    for other in ("import torch\n", kernel + "loss.backward()\n", "import ttl\n", "ttl ="):
        script.write_text(other)
        assert next_commands.kernel_run(script, typed, ["add.py"]) == ""
    assert next_commands.kernel_run(tmp_path / "none.py", [], []) == ""
