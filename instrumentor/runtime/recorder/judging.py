"""What was seen of the first region -> a verdict on it.

The verdict is the event ``witness``: ``status`` (verified, partly, unverified, failed),
``verified`` (of forward, backward, optimizer), ``unverified`` (check -> why), ``problems`` (each
``check``, ``text``, ``places``: the user's places of one stack, innermost first, ``others``: more
stacks), ``notes``, ``undifferentiated`` (stacks of forwards that no backward came to: whether the
loss needs them all the same, only the reading can tell), ``parameters`` at the first optimizer
step (``trainable``, ``with_gradient``), ``optimizer``, that one (see :func:`offers`), and
``cost_ms``, the time that watching took within the first sample.
"""

import itertools
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from instrumentor.runtime.recorder.runtimes import RUNTIMES
from instrumentor.runtime.recorder.watch import Place

VERIFIABLE = ("forward", "backward", "optimizer")
PROBLEM, UNVERIFIED, NOTE = "problem", "unverified", "note"
WORLD = "world size"
CHOSEN = "region"  # the label of lines that the user chose, which need not be a whole step
#: Backends of torch.distributed that drive all devices from one process, and torch's stand-in.
ONE_PROCESS = (*(each.process_group for each in RUNTIMES if each.process_group), "fake")
SHOWN = 5  # further stacks of a problem
TOLD = 50  # stacks of forwards that the reading is asked about
#: What ends the work on gradients, by `backward` or by `torch.autograd.grad`.
DONE = ("backward done", "gradient done")
#: When: in a watched region, behind the first one, in or behind a later one.
INSIDE, AFTER, LATER = "inside", "after", "later"


Stacks = Sequence[List[Place]]


class Seen(NamedTuple):
    """One thing that was seen.

    Attributes:
        kind: forward (in the gap, of a later backward), backward, backward done, gradient, step,
            nested step, changed (parameters), changed inside (a later `fwd+bwd`), eval, train,
            used (weights, by a forward in the region).
        leaves: of a backward: the tensors it accumulates into, kept alive so that none of them
            hands its identity on.
        unread: of a backward: why its graph could not be held against the region.
        number: autograd's, of what a forward made; None where no gradient is to come to it.
    """

    kind: str
    when: str
    places: List[Place]
    leaves: Sequence[Any] = ()
    unread: str = ""
    number: Optional[int] = None


class Evidence:
    """Everything that was seen, in order."""

    def __init__(self) -> None:
        self.label = ""  # of the first region
        self.lost = ""  # why there is no evidence at all
        self.processes = 0  # of torch.distributed, when there are several
        self.seen: List[Seen] = []
        self.fed: Set[int] = set()  # numbers of the nodes that were differentiated
        self.parameters: Optional[Dict[str, int]] = None  # of the first optimizer that stepped
        self.optimizer: Optional[Dict[str, Any]] = None  # the same one: see `offers`
        self.cost_s = 0.0

    def of(self, kind: str, *when: str) -> List[Seen]:
        """What was seen of a kind, in these places of the run."""
        return [each for each in self.seen if each.kind == kind and each.when in when]

    def updated(self, *when: str) -> bool:
        """Whether parameters were updated: by an optimizer, or by hand."""
        return bool(self.of("step", *when) or self.of("changed", *when))

    @property
    def judged(self) -> bool:
        """Whether something is trained in the region, as far as was seen."""
        trains = self.label != CHOSEN or bool(self.of("backward", INSIDE))
        return not self.lost and self.label != "inference" and trains


def count_parameters(optimizer: Any) -> Dict[str, int]:
    """How many parameters an optimizer trains, and how many of them have a gradient now."""
    groups = [group["params"] for group in optimizer.param_groups]
    trained = [p for group in groups for p in group if p.requires_grad]
    return {"trainable": len(trained), "with_gradient": sum(p.grad is not None for p in trained)}


def offers(torch: Any, optimizer: Any) -> Dict[str, Any]:
    """The class of an optimizer, and which faster way of its update it has and does not use.

    ``fused`` where the device of its parameters has that kernel, ``foreach`` where it has that
    alone; empty for none, or where the script chose one.
    """
    group: Dict[str, Any] = next(iter(optimizer.param_groups), {})
    chosen = any(group.get(each) for each in ("fused", "foreach", "differentiable"))
    device = next((p.device.type for p in group.get("params", ())), "")
    try:
        kernels = torch.utils._foreach_utils._get_fused_kernels_supported_devices()
    except AttributeError:  # an older torch has them for CUDA alone
        kernels = ["cuda"]
    way = ""
    if "fused" in group and device in kernels:
        way = "fused"
    elif "foreach" in group and device == "cpu":  # on CUDA torch takes it by itself
        way = "foreach"
    return {"class": type(optimizer).__name__, "offers": "" if chosen else way}


def other_processes(torch: Any) -> int:
    """How many processes train together; 0 for one."""
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 0
    if distributed.get_backend() in ONE_PROCESS:
        return 0
    size = int(distributed.get_world_size())
    return size if size > 1 else 0


def judge(evidence: Evidence, enough: bool) -> Dict[str, Any]:
    """The verdict; `enough` says that the suspicion of a forward outside could be looked into."""
    problems: List[Dict[str, Any]] = []
    unverified: Dict[str, str] = {}
    notes: List[str] = []
    for check, kind, text, stacks in findings(evidence, enough):
        # Of lines that the user chose a problem only means that they are no whole step.
        excused = evidence.label == CHOSEN and check in VERIFIABLE
        if kind == NOTE:
            notes.append(text)
        elif kind == UNVERIFIED or excused:
            unverified.setdefault(check, text)
        elif evidence.label != CHOSEN or check == WORLD:
            problems.append(problem(check, text, stacks))
    verified = [check for check in VERIFIABLE if check not in unverified]
    status = "partly" if verified and unverified else "verified" if verified else "unverified"
    return {
        "status": "failed" if problems else status,
        "verified": [] if problems else verified,
        "unverified": unverified,
        "problems": problems,
        "notes": notes,
        "undifferentiated": undifferentiated(evidence),
        "parameters": evidence.parameters,
        "optimizer": evidence.optimizer,
        "cost_ms": evidence.cost_s * 1000.0,
    }


Finding = Tuple[str, str, str, Stacks]  # check, kind, text, where


def findings(evidence: Evidence, enough: bool) -> Iterator[Finding]:
    """The first finding of each check, and every note."""
    if evidence.processes:
        text = "%d processes train together: a sample of one is not a step" % evidence.processes
        yield WORLD, PROBLEM, text, []
        return
    if not evidence.judged:
        why = evidence.lost or "nothing is trained in the region"
        yield from ((check, UNVERIFIED, why, []) for check in VERIFIABLE)
        return
    heard = set()
    for check, kind, text, look in CHECKS:
        found = look(evidence) if kind == NOTE or check not in heard else None
        if found is not None:
            heard.update([check] if kind != NOTE else [])
            yield check, kind, text, [each.places for each in found]
    unread = [each.unread for each in evidence.of("backward", INSIDE) if each.unread]
    yield from (("forward", UNVERIFIED, why, []) for why in unread[:1])
    if not enough:
        yield "forward", UNVERIFIED, "a part of it ran before the only sample", []


def problem(check: str, text: str, stacks: Stacks) -> Dict[str, Any]:
    """An entry of ``problems``, with each stack once."""
    distinct = [each for n, each in enumerate(stacks) if each and each not in stacks[:n]]
    first, others = (distinct[0], distinct[1 : SHOWN + 1]) if distinct else ([], [])
    return {"check": check, "text": text, "places": first, "others": others}


# -- the checks: evidence -> what shows it, if anything does; None when all is well ----------------

Found = Optional[Sequence[Seen]]


def when(found: object) -> Found:
    """A finding without a place in the code, if there is something; else None."""
    return () if found else None


def missed(evidence: Evidence, ahead_of_update: bool = False) -> Found:
    """Backwards behind the region that are of the same parameters, or all if it has none."""
    inside = evidence.of("backward", INSIDE)
    own = {id(leaf) for each in inside for leaf in each.leaves}
    found = []
    for each in evidence.seen:
        if ahead_of_update and (each.kind, each.when) == ("step", AFTER):
            break
        if (each.kind, each.when) == ("backward", AFTER):
            if not inside or own.intersection(map(id, each.leaves)):
                found.append(each)
    return found or None


def cut_off(evidence: Evidence) -> Found:
    """A step's backwards are those up to the update that follows the region."""
    return None if evidence.of("step", INSIDE) else missed(evidence, ahead_of_update=True)


def no_backward(evidence: Evidence) -> Found:
    """A region without any is no step, unless gradients come from torch.autograd.grad."""
    if evidence.of("backward", INSIDE) or evidence.of("gradient", INSIDE):
        return None
    return missed(evidence) or ()


def update_inside(evidence: Evidence) -> Found:
    """It is outside of `fwd+bwd`."""
    wrong = evidence.label == "fwd+bwd" and evidence.updated(INSIDE)
    return evidence.of("step", INSIDE) if wrong else None


def update_after(evidence: Evidence) -> Found:
    """It is inside of every other label."""
    right = evidence.label == "fwd+bwd" or evidence.updated(INSIDE) or not evidence.updated(AFTER)
    return None if right else evidence.of("step", AFTER)


def within_backward(evidence: Evidence) -> Found:
    """A step of an optimizer that a hook of the backward makes."""
    return when(evidence.of("nested step", INSIDE, AFTER, LATER))


def changed_unseen(evidence: Evidence) -> Found:
    """A step of an optimizer that was seen in between is what changed them."""
    return when(evidence.parameters is None and evidence.of("changed inside", LATER))


def after_the_last(evidence: Evidence) -> List[Seen]:
    """What was seen in the region behind its last backward; nothing where it has none."""
    inside = [each for each in evidence.seen if each.when == INSIDE]
    late = [*itertools.takewhile(lambda e: e.kind not in DONE, inside[::-1])][::-1]
    return late if len(late) < len(inside) else []


def evaluated(evidence: Evidence) -> Found:
    """After its last backward a step runs no model, with gradients or without."""
    late = after_the_last(evidence)
    used = [each for each in late if each.kind == "used"]
    modes = [each for each in late if each.kind in ("eval", "train")]
    kinds = [each.kind for each in modes]
    if "eval" in kinds and "train" in kinds[kinds.index("eval") :]:
        used.append(modes[kinds.index("eval")])
    return used or None


def undifferentiated(evidence: Evidence) -> List[List[Place]]:
    """Stacks of forwards ahead of the last backward that no backward came to, each once."""
    late = {id(each) for each in after_the_last(evidence)}
    stacks = {
        tuple(each.places): None
        for each in evidence.of("used", INSIDE)
        if each.number not in evidence.fed and id(each) not in late
    }
    return [list(each) for each in itertools.islice(stacks, TOLD)]


#: What is checked, what a finding is and says, and who looks.
CHECKS: Tuple[Tuple[str, str, str, Callable[[Evidence], Found]], ...] = (
    ("backward", PROBLEM, "the backward runs after the timed region", cut_off),
    ("backward", PROBLEM, "no backward runs in the timed region", no_backward),
    (
        "backward",
        UNVERIFIED,
        "gradients are taken by torch.autograd.grad",
        lambda e: when(not e.of("backward", INSIDE)),
    ),
    ("backward", NOTE, "another backward of the same parameters follows the region", missed),
    (
        "forward",
        PROBLEM,
        "a forward that feeds the backward runs outside of the timed region",
        lambda e: e.of("forward", AFTER) or None,
    ),
    (
        "forward",
        UNVERIFIED,
        "no backward shows what feeds it",
        lambda e: when(not e.of("backward", INSIDE)),
    ),
    (
        "optimizer",
        UNVERIFIED,
        "no optimizer stepped in the first sample of the chosen lines",
        lambda e: when(e.label == CHOSEN and not e.updated(INSIDE)),
    ),
    (
        "optimizer",
        PROBLEM,
        "the optimizer steps inside the region that is to time forward and backward",
        update_inside,
    ),
    (
        "optimizer",
        PROBLEM,
        "the optimizer steps after the region that is to time the whole step",
        update_after,
    ),
    ("optimizer", UNVERIFIED, "it steps within the backward", within_backward),
    (
        "optimizer",
        NOTE,
        "the optimizer steps within the backward, and is part of the sample",
        within_backward,
    ),
    (
        "optimizer",
        PROBLEM,
        "parameters change inside a later region that is to time forward and backward",
        changed_unseen,
    ),
    (
        "optimizer",
        UNVERIFIED,
        "no step of an optimizer was seen",
        lambda e: when(not e.updated(INSIDE, AFTER, LATER)),
    ),
    (
        "evaluation",
        PROBLEM,
        "a model runs after the last backward inside the timed region",
        evaluated,
    ),
)
