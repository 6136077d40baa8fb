"""Files that cannot be read as a program."""

from __future__ import annotations

from instrumentor.locate.rules.decline import Decline


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
    """A module that the script imports does not parse, and it speaks of a backward: the loop may
    be in there.

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
    message = "an imported file with a backward does not parse: {error}"
    remedy = "Fix the syntax, or run instrument under the Python that it is written for."


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
