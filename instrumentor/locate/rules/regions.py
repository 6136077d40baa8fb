"""What stands against a region: it would time other than what its label says, in some iterations.

Raises:
    Declined: from any of the functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from instrumentor.locate.gradients.forward import made_ahead
from instrumentor.locate.located import Declined
from instrumentor.locate.region.conditions import needed, skipping, tells_a_phase
from instrumentor.locate.region.modes import Region, step_updates
from instrumentor.locate.rules.decline import Decline
from instrumentor.locate.rules.loops import ForwardApart
from instrumentor.read.syntax import FUNCTIONS

_ONE_PATH = "Give a script with one of the branches, or run every backward before the branches."
_WHOLE_STEP = "Use --scope step: a sample is then the whole step."


class StaysOpen(Decline):
    """With `--scope step` a sample ends behind the optimizer's step, and one branch has none.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n, x in enumerate(loader):
        if n % 2:
            model(x).sum().backward()
            optimizer.step()
        else:
            model(x).mean().backward()
    ```

    ```console
    $ instrument explain --scope step train.py
    ```
    """

    kind = "step-in-region"
    message = "no optimizer step follows this backward in the iteration: the region would stay open"
    remedy = _ONE_PATH
    timeable = True


class StepWithBackward(Decline):
    """One compiled call runs the backward and the optimizer's step: nothing stands between them.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x, y):
        criterion(model(x), y).backward()
        optimizer.step()

    for x, y in loader:
        step(x, y)
    ```

    ```console
    $ instrument explain --scope fwd-bwd train.py
    ```
    """

    kind = "step-in-region"
    message = (
        "this runs the backward and steps {optimizer} as well: forward + backward has no end of "
        "its own here"
    )
    remedy = "{remedy}"
    timeable = True


class StepBeforeBackward(Decline):
    """Another backward may follow the optimizer's step within the region.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).sum()
        if x.mean() > 0:
            loss.backward(retain_graph=True)
            optimizer.step()
        loss.backward()
    ```
    """

    kind = "step-in-region"
    message = (
        "this steps {optimizer} before forward + backward is certain to be complete (last "
        "backward: line {last}): no end comes before it"
    )
    remedy = "{remedy}"
    timeable = True


class PhaseToldLate(Decline):
    """Whether an iteration trains or evaluates is known only when its forward has run.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = (model(x) - y).pow(2).mean()
        training = queue.get() == "train"
        if training:
            loss.backward()
            optimizer.step()
    ```
    """

    kind = "train-and-eval"
    message = (
        "one {what} serves training and evaluation, and which of them runs cannot be told ahead "
        "of the forward"
    )
    remedy = "Give training a {what} of its own."
    timeable = True


def no_update_inside(region: Region) -> None:
    """Forward + backward holds no optimizer step, and a whole step ends on every path."""
    candidate, flow = region.candidate, region.candidate.flow
    final = region.sites[-1].statement
    ends = [flow.after(end.after) for end in region.ends]
    if region.whole:
        if flow.after(final) not in ends and not flow.path(flow.after(final), ends):
            raise Declined(StaysOpen.at(candidate.source, final))
        return
    end = ends[0]
    for update in candidate.own_updates:
        step = update.statement
        inside = flow.path(flow.after(step), end) and region.reaches(step, {end})
        if flow.before(step) != end and not inside:
            continue
        follows = any(
            u.statement is final or flow.path(flow.after(final), flow.before(u.statement))
            for u in step_updates(candidate, region.sites)
        )
        words = {
            "optimizer": update.optimizer,
            "last": final.lineno,
            "remedy": _WHOLE_STEP if follows else _ONE_PATH,
        }
        reason = StepWithBackward if step is final else StepBeforeBackward
        raise Declined(reason.at(candidate.source, step, **words))


def no_forward_ahead(region: Region) -> None:
    """An unread call is taken for the forward only where no loop ahead of this one has run it."""
    if region.forward.certain:
        return
    for site in region.sites:
        if made_ahead(region.candidate, site) is not None:
            raise Declined(ForwardApart.at(site.backward_source, site.backward))


def no_phase_inside(regions: Sequence[Region]) -> None:
    """What tells training from evaluation is known when the region begins."""
    for region in regions:
        candidate, flow = region.candidate, region.candidate.flow
        sites = [s.statement for r in regions if r.begin is region.begin for s in r.sites]
        for start, test in ((s, t) for s in region.starts for t in skipping(flow, s, sites)):
            if any(map(tells_a_phase, needed(flow, start, test, sites)[1])):
                what = "function" if isinstance(candidate.loop, FUNCTIONS) else "loop"
                raise Declined(PhaseToldLate.at(candidate.source, test, what=what))
