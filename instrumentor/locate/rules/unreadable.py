"""Files that cannot be read as a program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from instrumentor.locate.located import Reason
from instrumentor.locate.rules.decline import Decline
from instrumentor.read.modules import Modules
from instrumentor.read.syntax import SOURCE_BYTES
from instrumentor.shared.project import seen_from_here
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.files import read_bytes


class Syntax(Decline):
    """The file is not Python, or not of the version under which the tool runs.

    ```python
    for x in loader
        loss.backward()
    ```
    """

    kind = "syntax"
    observable = False
    message = "the file does not parse: {error}"
    remedy = "Fix the syntax, or run instrument under the Python version the script is written for."


class BrokenImport(Decline):
    """A module that the script imports does not parse, and what is missed may be in there: the
    loop, its model, or an import that leads to them.

    ```python
    import steps

    steps.train()
    ```

    ```python
    # steps.py
    def train():
        loss.backward(
    ```
    """

    kind = "syntax"
    observable = False
    message = "an imported file does not parse, so what it defines is not seen: {error}"
    remedy = "Fix the syntax, or run instrument under the Python that it is written for."


def broken_imports(program: Modules) -> Iterator[Reason]:
    """The imported files that do not parse as reasons: one may hold what is missed."""
    for path, error in _broken(program):
        yield BrokenImport.of(path, error.lineno or 1, error=error.msg)


def unread_imports(program: Modules) -> Iterator[Caveat]:
    """The imported files that do not parse as warnings: the step is seen without them."""
    for path, error in _broken(program):
        text = f"An imported file does not parse, so what it defines is not seen ({error.msg})."
        yield Caveat("unread-import", text, place=f"{seen_from_here(path)}:{error.lineno or 1}")


def _broken(program: Modules) -> Iterator[tuple[Path, SyntaxError]]:
    """Files that do not parse and are imported under no condition, or speak of a backward."""
    sources = program.sources.values() if program.broken else ()
    needed = {path for source in sources for path in program.imported_anyhow(source)}
    for path, error in program.broken.items():
        if path in needed or b"backward" in read_bytes(path, SOURCE_BYTES):
            yield path, error


class FileTooLarge(Decline):
    """No person wrote a file of this size: it holds data.

    ```python
    # large.py
    from pathlib import Path

    Path("train.py").write_text("x = 1\\n" * 200_000)
    ```

    ```console
    $ python large.py
    $ instrument explain train.py
    ```
    """

    kind = "too-large"
    message = "the file has {error}"
    remedy = (
        "Keep data out of it, in a file of its own; with Tracy, `instrument profile` traces it as "
        "it is."
    )


class TooDeep(Decline):
    """An expression inside an expression, some hundred times, as a generator of code writes it.

    ```python
    # deep.py
    from pathlib import Path

    text = "import torch\\nfor x in loader:\\n    loss = model(x)" + ".abs()" * 500
    Path("train.py").write_text(text + "\\n    loss.backward()\\n    optimizer.step()\\n")
    ```

    ```console
    $ python deep.py
    $ instrument explain train.py
    ```
    """

    kind = "too-deep"
    message = "an expression is nested too deeply to be followed"
    remedy = "Give it names."
