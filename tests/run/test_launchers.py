"""What starts a script is told from its words, and gets the copy's paths in their place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instrumentor.run.launchers import Started, launched, started
from instrumentor.shared.errors import UsageError


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    for name in ("train.py", "pkg/train.py", "tests/test_x.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


RUN, LAUNCH, TEST = "torch.distributed.run", "accelerate.commands.launch", "tests/test_x.py"


@pytest.mark.parametrize(
    ("words", "module", "expected"),
    [
        ("train.py --lr 1", "", Started(Path("train.py"), ("--lr", "1"))),
        (
            "torchrun --nproc_per_node 1 train.py --lr 1",
            "",
            (Path("train.py"), ("--lr", "1"), RUN, "--nproc_per_node 1 train.py --lr 1", None),
        ),
        ("--standalone train.py", RUN, (Path("train.py"), (), RUN, "--standalone train.py", None)),
        ("accelerate launch train.py", "", (Path("train.py"), (), LAUNCH, "train.py", None)),
        (
            "deepspeed train.py -x",
            "",
            (Path("train.py"), ("-x",), "deepspeed.launcher.runner", "train.py -x", None),
        ),
        (f"-q {TEST}", "pytest", (Path(TEST), (), "pytest", f"-q {TEST}", "")),
        (
            f"{TEST}::test_y[a.py] -x",
            "pytest",
            (Path(TEST), (), "pytest", f"{TEST}::test_y[a.py] -x", "::test_y[a.py]"),
        ),
    ],
)
def test_the_script_among_the_words(words: str, module: str, expected: Any, cwd: Path) -> None:
    found = started(words.split(), module, cwd)
    if not isinstance(expected, Started):
        script, arguments, name, launcher, test = expected
        expected = Started(script, arguments, name, tuple(launcher.split()), test)
    assert found == expected


@pytest.mark.parametrize("words", ["-m pkg.train --lr 1", "--standalone --module pkg.train --lr 1"])
def test_a_module_that_a_launcher_starts(words: str, cwd: Path) -> None:
    found = started(words.split(), RUN, cwd)
    assert (found.script, found.arguments) == (cwd / "pkg" / "train.py", ("--lr", "1"))


@pytest.mark.parametrize(("words", "module"), [("-x", "pytest"), ("torchrun gone.py", "")])
def test_a_launcher_without_a_script_is_an_error(words: str, module: str, cwd: Path) -> None:
    with pytest.raises(UsageError, match="that exists is among its arguments"):
        started(words.split(), module, cwd)


def test_a_script_of_a_launchers_name_is_a_script(cwd: Path) -> None:
    (cwd / "torchrun").touch()
    assert started(["torchrun", "train.py"], "", cwd) == Started(Path("torchrun"), ("train.py",))


@pytest.mark.parametrize("absolute", [False, True])
def test_the_copy_takes_the_place_of_the_original(absolute: bool, cwd: Path) -> None:
    copy = cwd / "copy"
    (copy / "tests").mkdir(parents=True)
    (copy / TEST).touch()
    workspace: Any = SimpleNamespace(cwd=copy, script=copy / TEST)
    typed = str(cwd / TEST) if absolute else TEST
    options: Any = SimpleNamespace(module="pytest", launcher=("-q", f"{typed}::test_y"))
    words = launched(options, workspace, cwd / TEST, cwd)["arguments"]
    assert words == ("-q", f"{copy / TEST if absolute else TEST}::test_y")
