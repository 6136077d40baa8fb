"""The shapes of fixtures/shapes and what is to become of each.

A name is a file ``NAME.py`` or a folder ``NAME/`` with a ``train.py``.
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
        arguments: of the script.
        open: what still goes wrong, empty when nothing does: then the test is a strict xfail.
    """

    name: str
    promise: Promise | None
    declined: str = ""
    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    open: str = ""

    def files(self) -> dict[str, bytes]:
        """The project of the script, by relative path."""
        single = FOLDER / f"{self.name}.py"
        if single.is_file():
            return {"train.py": single.read_bytes()}
        folder = FOLDER / self.name
        found = (path for path in sorted(folder.rglob("*.py")) if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def accepted(name: str, label: str = "fwd+bwd", open: str = "", **promise: object) -> Shape:
    """A shape whose samples are the step."""
    return Shape(name, Promise(label=label, **promise), open=open)  # type: ignore[arg-type]


def declined(name: str, kind: str, open: str = "") -> Shape:
    """A shape that cannot be measured correctly."""
    return Shape(name, None, kind, open=open)


def _with_loop(name: str, line: int) -> Shape:
    return Shape(name, Promise(elsewhere=True), options=("--loop", f"train.py:{line}"))


SHAPES = (
    accepted("plain"),
    # what reading by names got wrong on real scripts
    accepted("activation_checkpointing"),
    accepted("checkpoint_sequential"),
    accepted("critic_ahead_of_the_actor"),
    accepted("layers_in_a_loop"),
    accepted("eval_then_cache_latents"),
    accepted("test_loader"),
    accepted("get_eval_model"),
    accepted("helper_trains_then_evaluates"),
    accepted("sync_from_import"),
    accepted("sync_package_alias"),
    accepted("mark_step_renamed"),
    accepted("cuda_synchronize_guarded"),
    accepted("accelerator_by_another_name"),
    accepted("accelerator_accumulates", micro=2),
    accepted("tuple_of_optimizers", ""),
    accepted("step_alias"),
    accepted("destroy_process_group_unreached"),
    accepted("ddp_world_size_one"),
    declined("process_from_another_module", "own-process"),
    accepted("same_name_in_a_nested_function"),
    accepted("batch_named_nowhere"),
    accepted("sequence_first"),
    accepted("item_before_backward"),
    # the axes of a census
    accepted("backward_in_a_helper"),
    accepted("train_step_function", "step"),
    accepted("counter_before"),
    accepted("accumulation_branch", micro=3),
    accepted("accumulation_continue", micro=2),
    accepted("accumulation_modulo", micro=4),
    accepted("accumulation_nested", micro=2),
    accepted("accumulation_in_the_step_function", micro=3),
    accepted("accumulation_slices", micro=2),
    accepted("fused_last_micro_batch", "fwd+bwd+optimizer", micro=2),
    accepted("grad_scaler"),
    accepted("amp_exclusive_branches"),
    accepted("summed_loss"),
    accepted("autograd_backward"),
    accepted("engine_backward"),
    accepted("trainer_across_modules"),
    accepted("class_with_fit"),
    accepted("host_reads_between"),
    accepted("initial_validation_bound"),
    accepted("early_stopping_on_validation"),
    accepted("checkpoint_of_the_best"),
    accepted("several_backwards"),
    accepted("dpo_continue", micro=2, without_graph=True),
    accepted("ppo_epochs"),
    accepted("while_with_refill"),
    accepted("nanogpt", micro=2),
    accepted("break_ahead_of_the_forward"),
    accepted("lbfgs_closure", "step"),
    accepted("generator_step"),
    accepted("bare_except"),
    accepted("joined_statements"),
    accepted("two_loops", elsewhere=True),
    _with_loop("two_loops", 18),
    # several optimizers
    accepted("gan", "step"),
    accepted("dcgan_two_backwards", "step"),
    accepted("wgan_gradient_penalty", "step"),
    accepted("actor_critic", "step"),
    accepted("sac", "step", without_graph=True),
    accepted("one_backward_two_optimizers", ""),
    accepted("list_of_optimizers", ""),
    # where the forward is not a call of a module
    accepted("truncated_bptt"),
    accepted("functional_call_closure"),
    accepted("compiled_model"),
    accepted("compiled_loss_function"),
    accepted("compiled_step"),
    accepted("backward_with_a_gradient"),
    accepted("step_in_a_dataclass", "step"),
    accepted("step_function_in_a_context", "step"),
    accepted("crank", "step"),
    accepted("forward_in_a_closure"),
    accepted("update_by_hand", updates_seen=False),
    declined("value_and_grad", "no-loop"),
    # what stands beside the step
    accepted("ema"),
    accepted("averaged_model"),
    accepted("distillation", without_graph=True),
    accepted("siamese"),
    accepted("losses_in_a_list"),
    accepted("maml"),
    accepted("diffusion"),
    accepted("vae"),
    accepted("optimizer_in_backward", ""),
    accepted("profiler_schedule"),
    accepted("reinforce", ""),
    accepted("dqn", without_graph=True),
    accepted("phase_string"),
    accepted("phase_flag"),
    accepted("phase_of_the_model"),
    accepted("phase_by_the_optimizer"),
    accepted("phase_in_the_step_function"),
    accepted("phase_by_the_class"),
    accepted("step_function_across_modules"),
    accepted("prefetch_after_backward"),
    accepted("inline_validation"),
    accepted("relative_imports"),
    accepted("sharpness_aware", "step"),
    declined("hf_trainer", "hf-trainer"),
    declined("spawned_workers", "distributed"),
    declined("no_training", "no-loop"),
)
