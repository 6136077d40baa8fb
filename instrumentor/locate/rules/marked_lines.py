"""Lines that the user marks with `--region`, and loops that only infer."""

from __future__ import annotations

from instrumentor.locate.rules.decline import Decline


class RegionLeft(Decline):
    """The lines are left on the way, by a return, a yield or an await: their end would be missed.

    ```python
    def train(loader):
        for x in loader:
            loss = model(x).sum()
            if loss > 10:
                return
            loss.backward()
            optimizer.step()
    ```

    ```console
    $ instrument explain --region train.py:3-6 train.py
    ```
    """

    kind = "region"
    message = "the region is left before its end"
    remedy = "End the region before that line."
    observable = False


class RegionCut(Decline):
    """The lines begin or end inside of a statement, or of two blocks.

    ```python
    for x in loader:
        loss = model(
            x
        ).sum()
        loss.backward()
    ```

    ```console
    $ instrument explain --region train.py:2-3 train.py
    ```
    """

    kind = "region"
    message = "lines {start}-{stop} are not whole statements of one block"
    remedy = "Let the region start and end with statements of the same indentation."
    observable = False


class NoInferenceLoop(Decline):
    """`--mode inference` asks for a loop that runs a model without gradients.

    ```python
    for x in loader:
        print(x)
    ```

    ```console
    $ instrument explain --mode inference train.py
    ```
    """

    kind = "no-inference-loop"
    message = "no loop that runs a model with gradients off was found"
    remedy = (
        "Give a script with a loop that runs the model under torch.no_grad() or inference_mode()."
    )
