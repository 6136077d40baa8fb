"""Programs that start a training script by themselves, and where it stands among their words.

A run starts the launcher as the user does, in the copy; what is read and instrumented is the
script, or the test, that it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from instrumentor.rewrite.prepare import module_path
from instrumentor.shared.errors import UsageError

if TYPE_CHECKING:
    from instrumentor.run.options import RunOptions
    from instrumentor.workspace.run_location import Workspace

PYTEST = "pytest"
#: The module that `python -m` starts, and how the same is typed as a program.
LAUNCHERS: dict[str, tuple[str, ...]] = {
    "torch.distributed.run": ("torchrun",),
    "torch.distributed.launch": (),
    "accelerate.commands.launch": ("accelerate", "launch"),
    "deepspeed.launcher.runner": ("deepspeed",),
    PYTEST: ("pytest",),
}


class Started(Struct, frozen=True):
    """A script, and what starts it.

    Attributes:
        arguments: the script's own.
        module: the name under which `python -m` starts the script or its launcher; else ''.
        launcher: the launcher's words with the script among them; empty without one.
        test: which tests of the script pytest runs (`::test_step[bf16]`, '' for all of them);
            None for a script that is no test.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    module: str = ""
    launcher: tuple[str, ...] = ()
    test: str | None = None


def started(words: Sequence[str], module: str, cwd: Path) -> Started:
    """What `SCRIPT ARGS`, `-m MODULE ARGS` or the words of a launcher start.

    Args:
        module: what follows -m; '' without it.
        cwd: where modules and scripts are looked for.

    Raises:
        UsageError: there is no such module, or the launcher is given no script.
    """
    if not module:
        module, words = _typed_as_program(words, cwd)
    if module in LAUNCHERS:
        return _launched(words, module, cwd)
    if module:
        return Started(module_path(module, cwd), tuple(words), module)
    return Started(Path(words[0]), tuple(words[1:]))


def _typed_as_program(words: Sequence[str], cwd: Path) -> tuple[str, Sequence[str]]:
    """The module of a launcher that was typed as a program (`torchrun`), and the words behind."""
    if not (cwd / words[0]).exists():
        for module, program in LAUNCHERS.items():
            if program and tuple(words[: len(program)]) == program:
                return module, words[len(program) :]
    return "", words


def _launched(words: Sequence[str], module: str, cwd: Path) -> Started:
    for at, word in enumerate(words):
        file, colons, test = word.partition("::")
        if file.endswith(".py") and (cwd / file).is_file():
            if module == PYTEST:
                return Started(Path(file), (), module, tuple(words), colons + test)
            return Started(Path(file), tuple(words[at + 1 :]), module, tuple(words))
        if word in ("-m", "--module") and module != PYTEST and at + 1 < len(words):
            script = module_path(words[at + 1], cwd)
            return Started(script, tuple(words[at + 2 :]), module, tuple(words))
    what = "test file (tests/test_x.py::test_y)" if module == PYTEST else "script"
    raise UsageError(f"-m {module}: no {what} that exists is among its arguments", "Name one.")


def through_pytest(plain: Started) -> Started:
    """What starts a script's tests, of a script that was given as it is."""
    return Started(plain.script, (), PYTEST, (str(plain.script),), "")


def launched(options: RunOptions, workspace: Workspace, script: Path, cwd: Path) -> dict[str, Any]:
    """What a request for a process says of the module and the arguments that start a script.

    A launcher's words are handed over as they were typed; a path that leads to the original, and
    not to the copy, becomes the copy's.

    Args:
        script, cwd: the original, and the folder in which the words were typed.
    """
    if not options.launcher:
        return {"module": options.module}
    words: list[str] = []
    for word in options.launcher:
        file, colons, test = word.partition("::")
        if file.endswith(".py") and (cwd / file).resolve() == script.resolve():
            same = (workspace.cwd / file).resolve() == workspace.script.resolve()
            word = f"{file if same else workspace.script}{colons}{test}"
        words.append(word)
    return {"module": options.module, "arguments": tuple(words)}
