"""Files whose text `--in-place` cannot exchange and put back."""

from __future__ import annotations

from instrumentor.locate.rules.decline import Decline


class HardLinked(Decline):
    """The file has a second name, which would keep the original text.

    ```python
    import torch

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.ones(9, 2, 4):
        model(x).sum().backward()
        optimizer.step()
    ```

    ```console
    $ ln train.py again.py
    $ instrument run --in-place --profiler wallclock train.py
    ```
    """

    kind = "hard-linked"
    message = (
        "--in-place: {name} has {count} names (hard links): the others would keep the original text"
    )
    remedy = "Give it a file of its own (cp FILE NEW; mv NEW FILE), or run without --in-place."


class OutsideGit(Decline):
    """The original is kept in git while the instrumented text stands in its place.

    ```python
    import torch

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.ones(9, 2, 4):
        model(x).sum().backward()
        optimizer.step()
    ```

    ```console
    $ instrument run --in-place --profiler wallclock train.py
    ```
    """

    kind = "outside-git"
    message = "--in-place: {name} {why}"
    remedy = "Put it into git (git init; git add), or run without --in-place."
