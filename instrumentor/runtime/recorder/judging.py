"""What was seen of the first region -> a verdict on it.

The verdict is the event ``witness``: ``status`` (verified, partly, unverified, failed),
``verified`` (of forward, backward, optimizer), ``unverified`` (check -> why), ``problems`` (each
``check``, ``text``, ``places``: the user's places of one stack, innermost first, ``others``: more
stacks), ``notes``, ``parameters`` at the first optimizer step (``trainable``, ``with_gradient``)
and ``cost_ms``, the time that watching took within the first sample.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from instrumentor.runtime.recorder.places import Place

CHECKS = ("forward", "backward", "optimizer")
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

    def changed(self) -> bool:
        """Whether parameters were seen to change."""
        return self.changed_inside or self.changed_gap or self.changed_later

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
    problems: List[Dict[str, Any]] = []
    unverified: Dict[str, str] = {}
    notes: List[str] = []
    if evidence.processes:
        text = "%d processes train together: a sample of one is not a step" % evidence.processes
        problems.append({"check": "world size", "text": text, "places": [], "others": []})
    elif evidence.judged:
        for check in (check_backward, check_forward, check_optimizer, check_evaluation):
            check(evidence, problems, unverified, notes)
        if not enough and "forward" not in unverified:
            unverified["forward"] = "a part of it ran before the only sample"
    else:
        why = evidence.lost or "nothing is trained in the region"
        unverified.update((check, why) for check in CHECKS)
    if evidence.label == CHOSEN:
        unverified.update((p["check"], p["text"]) for p in problems if p["check"] in CHECKS)
        problems = [p for p in problems if p["check"] == "world size"]
    verified = [check for check in CHECKS if check not in unverified]
    status = "partly" if verified and unverified else "verified" if verified else "unverified"
    return {
        "status": "failed" if problems else status,
        "verified": [] if problems else verified,
        "unverified": unverified,
        "problems": problems,
        "notes": notes,
        "parameters": evidence.counts,
        "cost_ms": evidence.cost_s * 1000.0,
    }


def problem(check: str, text: str, places: List[List[Place]]) -> Dict[str, Any]:
    distinct = [each for n, each in enumerate(places) if each and each not in places[:n]]
    first, others = (distinct[0], distinct[1 : SHOWN + 1]) if distinct else ([], [])
    return {"check": check, "text": text, "places": first, "others": others}


def check_backward(
    evidence: Evidence,
    problems: List[Dict[str, Any]],
    unverified: Dict[str, str],
    notes: List[str],
) -> None:
    """All backwards of a step are inside: those up to the update that follows the region.

    A region without any is no step, unless gradients come from torch.autograd.grad.
    """
    inside = [b for b in evidence.backwards if b.inside]
    own = {leaf for b in inside for leaf in b.leaves}
    after = [b for b in evidence.backwards if not b.inside]
    missed = [b for b in after if not inside or own.intersection(b.leaves)]
    stepped = any(within for within, _ in evidence.steps)
    cut = [b.places for b in missed if not (b.after_step or stepped)]
    if cut:
        problems.append(problem("backward", "the backward runs after the timed region", cut))
    elif not (inside or evidence.gradients):
        text = "no backward runs in the timed region"
        problems.append(problem("backward", text, [b.places for b in missed]))
    elif missed:
        notes.append("another backward of the same parameters follows the region")
    if not inside:
        taken = "gradients are taken by torch.autograd.grad"
        unverified["backward"] = taken if evidence.gradients else "none ran in the first sample"


def check_forward(
    evidence: Evidence,
    problems: List[Dict[str, Any]],
    unverified: Dict[str, str],
    notes: List[str],
) -> None:
    """Every forward that feeds a backward of the region is inside."""
    inside = [b for b in evidence.backwards if b.inside]
    unread = [b.unread for b in inside if b.unread]
    if evidence.outside:
        text = "a forward that feeds the backward runs outside of the timed region"
        problems.append(problem("forward", text, evidence.outside))
    elif unread:
        unverified["forward"] = unread[0]
    elif not inside:
        unverified["forward"] = "no backward shows what feeds it"


def check_optimizer(
    evidence: Evidence,
    problems: List[Dict[str, Any]],
    unverified: Dict[str, str],
    notes: List[str],
) -> None:
    """The update is outside of `fwd+bwd`, and inside of every other label."""
    inside = [places for within, places in evidence.steps if within]
    after = [places for within, places in evidence.steps if not within]
    alone = evidence.label == "fwd+bwd"
    if evidence.label == CHOSEN and not (inside or evidence.changed_inside):
        unverified["optimizer"] = "the lines were chosen without it"
    elif alone and (inside or evidence.changed_inside):
        text = "the optimizer steps inside the region that is to time forward and backward"
        problems.append(problem("optimizer", text, inside))
    elif not alone and (after or evidence.changed_gap) and not (inside or evidence.changed_inside):
        text = "the optimizer steps after the region that is to time the whole step"
        problems.append(problem("optimizer", text, after))
    elif evidence.nested_step:
        notes.append("the optimizer steps within the backward, and is part of the sample")
        unverified["optimizer"] = "it steps within the backward"
    elif evidence.changed_unseen and evidence.counts is None:  # nor did an optimizer step between
        text = "parameters change inside a later region that is to time forward and backward"
        problems.append(problem("optimizer", text, []))
    elif not (inside or after or evidence.changed()):
        unverified["optimizer"] = "no step of an optimizer was seen"


def check_evaluation(
    evidence: Evidence,
    problems: List[Dict[str, Any]],
    unverified: Dict[str, str],
    notes: List[str],
) -> None:
    """After the last work of the step the trained model is not used without gradients."""
    used = [places for kind, places in evidence.late if kind == "inference"]
    modes = [(kind, places) for kind, places in evidence.late if kind != "inference"]
    kinds = [kind for kind, _ in modes]
    if "eval" in kinds and "train" in kinds[kinds.index("eval") :]:
        used.append(modes[kinds.index("eval")][1])
    if used:
        text = "the model is evaluated inside the timed region"
        problems.append(problem("evaluation", text, used))
