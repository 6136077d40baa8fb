"""The shapes of fixtures/shapes and what is to become of each.

A name is a file ``NAME.py`` or a folder ``NAME/`` with a ``train.py``. Of one that is not listed
here every sample is forward + backward of a single step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.shapes.verdict import Promise

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "shapes"


@dataclass(frozen=True)
class Shape:
    """One script.

    Attributes:
        promise: what its run keeps; None when it is declined.
        declined: kind of the first reason, empty when it is accepted.
        options: of the tool.
    """

    name: str
    promise: Promise | None
    declined: str = ""
    options: tuple[str, ...] = ()

    def files(self) -> dict[str, bytes]:
        """The project of the script, by relative path."""
        single = FOLDER / f"{self.name}.py"
        if single.is_file():
            return {"train.py": single.read_bytes()}
        folder = FOLDER / self.name
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.py")}


DECLINED = {
    "process_from_another_module": "own-process",
    "value_and_grad": "no-loop",
    "hf_trainer": "hf-trainer",
    "spawned_workers": "distributed",
    "no_training": "no-loop",
}
PROMISES = {
    # an update after several backwards
    **dict.fromkeys(
        (
            *("accelerator_accumulates", "accumulation_continue", "accumulation_nested"),
            *("accumulation_slices", "nanogpt"),
        ),
        Promise(micro=2),
    ),
    "accumulation_branch": Promise(micro=3),
    "accumulation_in_the_step_function": Promise(micro=3),
    "accumulation_modulo": Promise(micro=4),
    "dpo_continue": Promise(micro=2, without_graph=True),
    "fused_last_micro_batch": Promise("fwd+bwd+optimizer", micro=2),
    # the optimizer's step is a part of it
    **dict.fromkeys(
        (
            *("lbfgs_closure", "sharpness_aware"),
            *("gan", "dcgan_two_backwards", "wgan_gradient_penalty", "actor_critic"),
        ),
        Promise("step"),
    ),
    "sac": Promise("step", without_graph=True),
    # forward + backward and the whole step would both be right
    **dict.fromkeys(
        (
            *("tuple_of_optimizers", "list_of_optimizers", "one_backward_two_optimizers"),
            *("optimizer_in_backward", "reinforce"),
        ),
        Promise(""),
    ),
    "distillation": Promise(without_graph=True, within="Linear"),
    "teacher_ahead": Promise(without_graph=True, within="Teacher"),
    "teacher_of_another_module": Promise(without_graph=True, within="Embedding"),
    "dqn": Promise(without_graph=True, within="Linear"),
    "agent_learns": Promise(without_graph=True, within="Sequential"),
    "gan_fakes_ahead": Promise("step", without_graph=True, within="Painter"),
    "two_loops": Promise(elsewhere=True),
    "update_by_hand": Promise(updates_seen=False),
}


def _shape(name: str) -> Shape:
    kind = DECLINED.get(name, "")
    return Shape(name, None if kind else PROMISES.get(name, Promise()), kind)


NAMES = sorted(path.stem for path in FOLDER.iterdir() if path.name != "__pycache__")
SHAPES = (
    *map(_shape, NAMES),
    Shape("two_loops", Promise(elsewhere=True), options=("--loop", "train.py:18")),
)
