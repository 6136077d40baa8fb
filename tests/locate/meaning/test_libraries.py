"""What is known of libraries by qualified names: the nearest row counts, every module is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.locate.meaning import libraries
from instrumentor.locate.meaning.libraries import effect_of, made_by, role_of
from instrumentor.locate.meaning.libraries.library import fits
from instrumentor.locate.meaning.methods import gives
from instrumentor.locate.meaning.roles import Effect, Gives, Kind, Role
from instrumentor.locate.rules.frameworks import _BY_KIND, _TRAINERS

#: A library's own rows go before those that fit names of any package.
MADE = {
    "torch.optim.AdamW": Kind.OPTIMIZER,
    "torch.optim.lr_scheduler.StepLR": Kind.SCHEDULER,
    "torch.optim.swa_utils.AveragedModel": Kind.AVERAGE,
    "torch.nn.CrossEntropyLoss": Kind.LOSS,
    "torch.nn.Parameter": Kind.DATA,
    "torch.nn.Linear": Kind.MODEL,
    "torch.utils.data.DataLoader": Kind.DATA,
    "torchdata.stateful_dataloader.DataLoader": Kind.DATA,
    "transformers.LlamaForCausalLM": Kind.MODEL,
    "transformers.AutoTokenizer.from_pretrained": Kind.DATA,
    "transformers.AutoModel.from_pretrained": Kind.MODEL,
    "transformers.AutoConfig.from_pretrained": Kind.DATA,
    "transformers.get_cosine_schedule_with_warmup": Kind.SCHEDULER,
    "diffusers.DDPMScheduler.from_pretrained": Kind.DATA,
    "diffusers.UNet2DConditionModel": Kind.MODEL,
    "peft.PeftModel.from_pretrained": Kind.MODEL,
    "timm.create_model": Kind.MODEL,
    "lightning.fabric.Fabric": Kind.ACCELERATOR,
    "accelerate.Accelerator": Kind.ACCELERATOR,
    "accelerate.logging.get_logger": Kind.LOGGER,
    "nobody.Knows": None,
}
ROLES = {
    "torch_xla.sync": Role.SYNC,
    "torch.cuda.synchronize": Role.WAIT,
    "tt_crank.runtime.synchronize": Role.WAIT,
    "functorch.no_grad": Role.NO_GRAD,
    "deepspeed.checkpointing.checkpoint": Role.ACTIVATION_CHECKPOINT,
    "wandb.log": Role.LOG,
    "torch.cat": None,
}
EFFECTS = {
    "torch.save": Effect.NOTHING,
    "torch.load": Effect.LOADS,
    "torch.manual_seed": Effect.PROCESS,
    "torch.nn.init.kaiming_normal_": Effect.FIRST,
    "torch.nn.utils.clip_grad_norm": Effect.GIVEN,
    "torchvision.utils.save_image": Effect.SAVES,
    "random.shuffle": Effect.FIRST,
    "numpy.random.shuffle": Effect.FIRST,
    "random.seed": Effect.PROCESS,
    "wandb.init": Effect.PROCESS,
    "builtins.exec": Effect.PROCESS,
    "transformers.AutoModel.from_pretrained": Effect.LOADS,
    "nobody.knows": Effect.GIVEN,
}


@pytest.mark.parametrize(("name", "kind"), MADE.items())
def test_what_a_call_makes(name: str, kind: Kind | None) -> None:
    assert made_by(name) is kind


@pytest.mark.parametrize(("name", "role"), ROLES.items())
def test_what_a_call_does(name: str, role: Role | None) -> None:
    assert role_of(name) is role


@pytest.mark.parametrize(("name", "effect"), EFFECTS.items())
def test_what_a_call_changes(name: str, effect: Effect) -> None:
    assert effect_of(name) is effect


def test_what_a_call_gives() -> None:
    assert gives("builtins.len") is Gives.NUMBER
    assert gives("torch.stack") is Gives.NEW
    assert gives("torch.reshape") is Gives.PART


@pytest.mark.parametrize(
    ("name", "row", "fit"),
    [
        ("torch.nn.L1Loss", "torch.nn.*Loss*", True),
        ("torch.nn", "torch.nn.*", False),
        ("aba", "ab*ba", False),
        ("torch.x_", "torch.*_", True),
    ],
)
def test_a_row_fits_as_a_pattern_of_the_shell_does(name: str, row: str, fit: bool) -> None:
    assert fits(name, row) is fit


def test_every_module_of_the_folder_is_read() -> None:
    names = {path.stem for path in Path(libraries.__file__).parent.glob("*.py")}
    assert len(libraries.LIBRARIES) == len(names - {"__init__", "library"})


def test_every_kind_of_decline_that_a_library_names_is_known() -> None:
    for each in libraries.LIBRARIES:
        assert not each.trainer or each.trainer in _TRAINERS
        for kind in (each.imported, each.runtime, each.without_torch):
            assert not kind or kind in _BY_KIND
