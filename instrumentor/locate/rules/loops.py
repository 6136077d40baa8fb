"""Loops that are not the one, or not whole: which one, where its forward is, who steps."""

from __future__ import annotations

from instrumentor.locate.rules.decline import Decline


class SeveralLoops(Decline):
    """None of several loops is the obvious one; each is listed. Of loops that run one behind the
    other the first is measured, with W037, unless it is a warm-up of a few turns.

    ```python
    import torch
    from settings import distils

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if distils:
        for x in loader:
            (model(x) - teacher(x)).square().sum().backward()
            optimizer.step()
    else:
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
    ```
    """

    kind = "several-loops"
    message = "one of {count} {what} loops{place}"
    remedy = "Say which one: {options}"
    timeable = True


class LoopUnseen(Decline):
    """A method of an object whose class is chosen at run time, and several classes have it.

    ```python
    import argparse
    import torch

    class Server:
        def tune(self):
            for x in self.loader:
                model(x).sum().backward()
                optimizer.step()

    class Large(Server):
        def tune(self):
            for x, y in self.loader:
                criterion(model(x), y).backward()
                optimizer.step()

    class Plain:
        def train(self):
            for x in self.loader:
                model(x).mean().backward()
                optimizer.step()

    class Noisy:
        def train(self):
            for x in self.loader:
                model(x + 1).mean().backward()
                optimizer.step()

    Server().tune()
    Large().tune()
    for client in registry.select(Plain, Noisy):
        client.train()
    ```
    """

    kind = "loop-unseen"
    message = (
        "which training loop runs cannot be read: {call} may come to {count} that are not seen "
        "to be reached"
    )
    remedy = "`instrument run` looks for it by running the script."
    unseen = True


class ForwardApart(Decline):
    """The backward differentiates what another loop has computed: a sample of the iteration would
    have no forward.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = [model(x).sum() for x in first]
    for loss in losses:
        loss.backward()
        optimizer.step()
    ```
    """

    kind = "forward-apart"
    message = (
        "the forward of this backward is not in the same iteration of the loop "
        "(a rollout, a stored loss)"
    )
    remedy = "Give a script whose loop runs the model and its backward together."
    timeable = True
    unseen = True


class ForwardUnseen(Decline):
    """The loss comes from calls of the iteration, and none of them is seen to run a model.

    ```python
    import torch
    from tables import MODELS

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = MODELS[name]()

        def forward(self, x):
            return self.body(x).mean()

    optimizer, loss = torch.optim.SGD(weights, lr=0.1), Loss()
    for x in loader:
        loss(x).backward()
        optimizer.step()
    ```
    """

    kind = "forward-unseen"
    message = (
        "no forward was recognised in what this backward differentiates: {what} at {place} "
        "could not be followed"
    )
    remedy = "Give a script that makes its model where its files can be read."
    timeable = True
    unseen = True


class ForwardUnknown(Decline):
    """None of what the loss comes from in the iteration runs a model, as far as it is known.

    ```python
    import torch
    from buffers import Losses

    optimizer, kept = torch.optim.SGD(weights, lr=0.1), {"losses": []}
    for loss in kept["losses"]:
        loss.backward()
        optimizer.step()
    ```
    """

    kind = ForwardUnseen.kind
    message = (
        "no forward was recognised in what this backward differentiates: another loop or an "
        "earlier iteration may have run it (a rollout, a stored loss)"
    )
    remedy = "`instrument run` looks for the step by running the script."
    timeable = True


class BackwardOnly(Decline):
    """Gradients are computed, but nothing is trained with them.

    ```python
    import torch

    for x in images:
        x.requires_grad_(True)
        model(x).max().backward()
        saliency.append(x.grad.abs())
    ```
    """

    kind = "no-optimizer-step"
    message = "a backward runs in this loop, but no optimizer step is seen to follow it"
    remedy = "A training loop steps an optimizer; if this is one: --loop {place}."
    timeable = True
    unseen = True


class StepElsewhere(Decline):
    """The early stop stands behind the optimizer's step, and leaves the loop from there.

    ```python
    import torch

    from parts import gradients

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        gradients(model, batch)
        optimizer.step()
    ```

    ```python
    # parts.py
    def gradients(model, batch):
        for x in batch:
            model(x).sum().backward()
    ```
    """

    kind = "step-elsewhere"
    message = "the optimizer is stepped in another module than the one with the loop"
    remedy = "Step the optimizer in the module of the loop."
    timeable = True
    unseen = True


class SwallowedStop(Decline):
    """The run stops early by an exception, which a handler around the loop would take for a
    failure of the training and go on.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
    except:
        print("failed")
    ```
    """

    kind = "swallowed-stop"
    message = "a bare except (or except BaseException) around the loop would swallow the early stop"
    remedy = "Catch Exception instead."
