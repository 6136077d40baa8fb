"""What was seen of the first region -> a verdict on it.

The verdict is the event ``witness``: ``status`` (verified, partly, unverified, failed),
``verified`` (of forward, backward, optimizer), ``unverified`` (check -> why), ``problems`` (each
``check``, ``text``, ``places``: the user's places of one stack, innermost first, ``others``: more
stacks), ``notes``, ``parameters`` at the first optimizer step (``trainable``, ``with_gradient``)
and ``cost_ms``, the time that watching took within the first sample.
"""

from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from instrumentor.runtime.recorder.places import Place

VERIFIABLE = ("forward", "backward", "optimizer")
PROBLEM, UNVERIFIED, NOTE = "problem", "unverified", "note"
WORLD = "world size"
CHOSEN = "region"  # the label of lines that the user chose: they may be a part of a step
ONE_PROCESS = ("tt", "fake")  # backends of torch.distributed that drive all devices from one
SHOWN = 5


class Backward(NamedTuple):
    """A backward that was seen: where, inside the region or in the gap, and what it feeds."""

    places: List[Place]
    inside: bool
    after_step: bool  # an optimizer had stepped in the gap
    leaves: Dict[int, Any]
    unread: str  # why its graph could not be held against the region


class Finding(NamedTuple):
    """What one check has found.

    Attributes:
        kind: a problem, why something stays unverified, or a remark.
        stacks: of a problem: where it was seen.
    """

    kind: str
    text: str
    stacks: Sequence[List[Place]] = ()


class Evidence:
    """Everything that was seen."""

    def __init__(self) -> None:
        self.label = ""
        self.lost = ""  # why there is no evidence at all
        self.processes = 0  # of torch.distributed, when there are several
        self.backwards: List[Backward] = []
        self.gradients = 0  # calls of torch.autograd.grad inside
        self.outside: List[List[Place]] = []  # forwards of the gap that feed a later backward
        self.steps: List[Tuple[bool, List[Place]]] = []  # (inside, where) of optimizers
        self.nested_step = False  # an optimizer stepped within a backward
        self.changed_inside = False  # parameters, after the backward
        self.changed_gap = False
        self.changed_later = False  # at a place that fits the label
        self.changed_unseen = False  # inside of a later region that is to hold no update
        self.late: List[Tuple[str, List[Place]]] = []  # eval, train, inference after all work
        self.counts: Optional[Dict[str, int]] = None
        self.cost_s = 0.0
        self.gap_began: Optional[int] = None
        self.gap_ended: Optional[int] = None
        self.own_anomaly = False  # the script had switched anomaly mode on itself

    @property
    def judged(self) -> bool:
        """Whether something is trained in the region, as far as was seen."""
        trains = self.label != CHOSEN or any(backward.inside for backward in self.backwards)
        return not self.lost and self.label != "inference" and trains

    @property
    def inside(self) -> List[Backward]:
        """Backwards of the region."""
        return [backward for backward in self.backwards if backward.inside]

    @property
    def missed(self) -> List[Backward]:
        """Backwards behind the region that are of the same parameters, or all if it has none."""
        own = {leaf for backward in self.inside for leaf in backward.leaves}
        after = [backward for backward in self.backwards if not backward.inside]
        return [each for each in after if not self.inside or own.intersection(each.leaves)]

    def updates(self, inside: bool) -> List[List[Place]]:
        """Where optimizers stepped, inside of the region or behind it."""
        return [places for within, places in self.steps if within == inside]

    @property
    def updated_inside(self) -> bool:
        """Whether an update was seen inside of the region."""
        return bool(self.updates(inside=True)) or self.changed_inside

    @property
    def updated_after(self) -> bool:
        """Whether one was seen between it and the next."""
        return bool(self.updates(inside=False)) or self.changed_gap

    def weights(self) -> Set[int]:
        """Identities of the tensors that are trained."""
        return {leaf for backward in self.backwards for leaf in backward.leaves}

    def count(self, optimizer: Any) -> None:
        """Count the parameters of the first optimizer that steps."""
        groups = [group["params"] for group in optimizer.param_groups]
        trained = [p for group in groups for p in group if p.requires_grad]
        reached = sum(p.grad is not None for p in trained)
        self.counts = {"trainable": len(trained), "with_gradient": reached}


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
    found = list(findings(evidence, enough))
    if evidence.label == CHOSEN:
        found = [*relaxed(found)]
    problems = [
        problem(check, each.text, each.stacks) for check, each in found if each.kind == PROBLEM
    ]
    unverified: Dict[str, str] = {}
    for check, each in found:
        if each.kind == UNVERIFIED:
            unverified.setdefault(check, each.text)
    verified = [check for check in VERIFIABLE if check not in unverified]
    status = "partly" if verified and unverified else "verified" if verified else "unverified"
    return {
        "status": "failed" if problems else status,
        "verified": [] if problems else verified,
        "unverified": unverified,
        "problems": problems,
        "notes": [each.text for _, each in found if each.kind == NOTE],
        "parameters": evidence.counts,
        "cost_ms": evidence.cost_s * 1000.0,
    }


def findings(evidence: Evidence, enough: bool) -> Iterator[Tuple[str, Finding]]:
    """What each check has found; of checks of one thing the first that finds something."""
    if evidence.processes:
        text = "%d processes train together: a sample of one is not a step" % evidence.processes
        yield WORLD, Finding(PROBLEM, text)
    elif not evidence.judged:
        why = evidence.lost or "nothing is trained in the region"
        yield from ((check, Finding(UNVERIFIED, why)) for check in VERIFIABLE)
    else:
        for check, alternatives in CHECKS:
            found = (look(evidence) for look in alternatives)
            yield from ((check, each) for each in next(filter(None, found), ()))
        if not enough:
            yield "forward", Finding(UNVERIFIED, "a part of it ran before the only sample")


def relaxed(found: List[Tuple[str, Finding]]) -> Iterator[Tuple[str, Finding]]:
    """Of lines that the user chose: a problem only means that it is not a whole step."""
    excused = [(c, f) for c, f in found if f.kind == PROBLEM and c in VERIFIABLE]
    yield from ((check, each._replace(kind=UNVERIFIED)) for check, each in excused)
    yield from ((c, f) for c, f in found if f.kind != PROBLEM or c == WORLD)


def problem(check: str, text: str, places: Sequence[List[Place]]) -> Dict[str, Any]:
    distinct = [each for n, each in enumerate(places) if each and each not in places[:n]]
    first, others = (distinct[0], distinct[1 : SHOWN + 1]) if distinct else ([], [])
    return {"check": check, "text": text, "places": first, "others": others}


# -- the checks: evidence -> findings, none when all is well --------------------------------------

Findings = List[Finding]


def backward_cut_off(evidence: Evidence) -> Findings:
    """A step's backwards are those up to the update that follows the region."""
    stepped = bool(evidence.updates(inside=True))
    cut = [b.places for b in evidence.missed if not (b.after_step or stepped)]
    return [Finding(PROBLEM, "the backward runs after the timed region", cut)] if cut else []


def backward_lacking(evidence: Evidence) -> Findings:
    """A region without any is no step, unless gradients come from torch.autograd.grad."""
    if evidence.inside or evidence.gradients:
        return []
    missed = [backward.places for backward in evidence.missed]
    return [Finding(PROBLEM, "no backward runs in the timed region", missed)]


def backward_of_another(evidence: Evidence) -> Findings:
    text = "another backward of the same parameters follows the region"
    return [Finding(NOTE, text)] if evidence.missed else []


def backward_unseen(evidence: Evidence) -> Findings:
    taken = "gradients are taken by torch.autograd.grad"
    why = taken if evidence.gradients else "none ran in the first sample"
    return [] if evidence.inside else [Finding(UNVERIFIED, why)]


def forward_outside(evidence: Evidence) -> Findings:
    """Every forward that feeds a backward of the region is inside."""
    text = "a forward that feeds the backward runs outside of the timed region"
    return [Finding(PROBLEM, text, evidence.outside)] if evidence.outside else []


def forward_unread(evidence: Evidence) -> Findings:
    unread = [backward.unread for backward in evidence.inside if backward.unread]
    if not evidence.inside:
        unread = ["no backward shows what feeds it"]
    return [Finding(UNVERIFIED, why) for why in unread[:1]]


def update_left_out(evidence: Evidence) -> Findings:
    left_out = evidence.label == CHOSEN and not evidence.updated_inside
    return [Finding(UNVERIFIED, "the lines were chosen without it")] if left_out else []


def update_inside(evidence: Evidence) -> Findings:
    """It is outside of `fwd+bwd`."""
    if evidence.label != "fwd+bwd" or not evidence.updated_inside:
        return []
    text = "the optimizer steps inside the region that is to time forward and backward"
    return [Finding(PROBLEM, text, evidence.updates(inside=True))]


def update_after(evidence: Evidence) -> Findings:
    """It is inside of every other label."""
    if evidence.label == "fwd+bwd" or evidence.updated_inside or not evidence.updated_after:
        return []
    text = "the optimizer steps after the region that is to time the whole step"
    return [Finding(PROBLEM, text, evidence.updates(inside=False))]


def update_within_backward(evidence: Evidence) -> Findings:
    text = "the optimizer steps within the backward, and is part of the sample"
    both = [Finding(NOTE, text), Finding(UNVERIFIED, "it steps within the backward")]
    return both if evidence.nested_step else []


def update_unseen_inside(evidence: Evidence) -> Findings:
    if not evidence.changed_unseen or evidence.counts is not None:  # a step was seen in between
        return []
    text = "parameters change inside a later region that is to time forward and backward"
    return [Finding(PROBLEM, text)]


def update_unseen(evidence: Evidence) -> Findings:
    seen = evidence.updated_inside or evidence.updated_after or evidence.changed_later
    return [] if seen else [Finding(UNVERIFIED, "no step of an optimizer was seen")]


def evaluation_inside(evidence: Evidence) -> Findings:
    """After the last work of the step the trained model is not used without gradients."""
    used = [places for kind, places in evidence.late if kind == "inference"]
    modes = [(kind, places) for kind, places in evidence.late if kind != "inference"]
    kinds = [kind for kind, _ in modes]
    if "eval" in kinds and "train" in kinds[kinds.index("eval") :]:
        used.append(modes[kinds.index("eval")][1])
    text = "the model is evaluated inside the timed region"
    return [Finding(PROBLEM, text, used)] if used else []


#: What is checked, by functions of which the first that finds something is heard.
CHECKS: Tuple[Tuple[str, Tuple[Callable[[Evidence], Findings], ...]], ...] = (
    ("backward", (backward_cut_off, backward_lacking, backward_of_another)),
    ("backward", (backward_unseen,)),
    ("forward", (forward_outside, forward_unread)),
    (
        "optimizer",
        (
            update_left_out,
            update_inside,
            update_after,
            update_within_backward,
            update_unseen_inside,
            update_unseen,
        ),
    ),
    ("evaluation", (evaluation_inside,)),
)
