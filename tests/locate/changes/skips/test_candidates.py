"""A trainer with its loop in a class: what goes ahead of the epochs and between the steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from instrumentor.locate.located import Located
from tests.locate.cases import HEAD, looped, plan_of
from tests.warned import texts

HANDLER = """\
class Callback:
    def on_train_begin(self, trainer, **values): ...
    def on_step_end(self, trainer, **values): ...
    def on_validation_end(self, trainer, **values): ...
    def on_error(self, trainer, **values): ...
    def on_train_end(self, trainer, **values): ...


class Printer(Callback):
    def on_step_end(self, trainer, **values):
        print(trainer.global_step, values["loss"])

    def on_validation_end(self, trainer, **values):
        print("validation", values["val_loss"])


class Extra(Callback):
    def on_validation_end(self, trainer, **values):
        {extra}


class Handler:
    def __init__(self, callbacks):
        self.callbacks = callbacks

    def fire(self, event, trainer, **values):
        for callback in self.callbacks:
            getattr(callback, event)(trainer, **values)
"""
TRAINER = """\
from abc import ABC, abstractmethod

import torch

from handler import Handler


class Trainer(ABC):
    def __init__(self, config, model, train_loader, val_loader, callbacks):
        self.config, self.model = config, model
        self.train_loader, self.val_loader = train_loader, val_loader
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.rate)
        self.callbacks = Handler(callbacks)
        self.global_step = 0

    @abstractmethod
    def _forward(self, batch):
        ...

    def _backward(self, loss):
        loss.backward()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        total, batches = 0.0, 0
        for batch in self.val_loader:
            total += self._forward(batch).item()
            batches += 1
        self.model.train()
        self.callbacks.fire("on_validation_end", self, val_loss=total / max(batches, 1))

    def train(self):
        try:
            self.callbacks.fire("on_train_begin", self)
            if self.val_loader is not None:
                self.validate()
            for epoch in range(self.config.epochs):
                for batch in self.train_loader:
                    self.optimizer.zero_grad()
                    loss = self._forward(batch)
                    self._backward(loss)
                    self.optimizer.step()
                    self.global_step += 1
                    self.callbacks.fire("on_step_end", self, loss=loss.item())
                    if self.global_step % self.config.every == 0:
                        self.validate()
        except Exception as error:
            self.callbacks.fire("on_error", self, error=error)
            raise
        finally:
            self.callbacks.fire("on_train_end", self)
"""
ENTRY = """\
import torch
from dataclasses import dataclass

from handler import Extra, Printer
from trainer import Trainer


@dataclass
class Config:
    rate: float = 0.1
    epochs: int = 2
    every: int = 3


class Regression(Trainer):
    def _forward(self, batch):
        x, y = batch
        return torch.nn.functional.mse_loss(self.model(x), y)


data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 1))
loader = torch.utils.data.DataLoader(data, 4)
model = torch.nn.Linear(4, 1)
Regression(Config(), model, loader, loader, [Printer(), Extra()]).train()
"""


def located(folder: Path, extra: str) -> Located:
    (folder / "handler.py").write_text(HANDLER.format(extra=extra))
    (folder / "trainer.py").write_text(TRAINER)
    (folder / "train.py").write_text(ENTRY)
    return locate_file(folder / "train.py", Options(), [folder])


@pytest.mark.parametrize(
    ("extra", "goes"),
    [
        ("pass", True),
        ("self.seen = values['val_loss']", True),
        ("trainer.on_step_end = print", False),
        ("trainer.config.every = 5", False),
        ("trainer.optimizer.param_groups[0]['lr'] = 0.01", False),
        ("trainer.global_step = 0", False),
        ("trainer.model.requires_grad_(False)", False),
    ],
)
def test_a_trainer_that_tells_its_callbacks(tmp_path: Path, extra: str, goes: bool) -> None:
    found = located(tmp_path, extra)
    lines = [s.statement.lineno for s in found.skipped]
    at = [n for n, text in enumerate(TRAINER.splitlines(), 1) if "self.validate()" in text]
    whole = [
        n for n, text in enumerate(TRAINER.splitlines(), 1) if "val_loader is not None" in text
    ]
    assert [n for n in lines if n in (*at, *whole)] == (at if goes else [])
    assert bool([k for k in found.kept if k.what == "validation"]) is not goes


def test_a_branch_that_evaluates_and_returns_is_left_alone() -> None:
    source = f"""{HEAD}
def validate(model):
    model.eval()
    with torch.no_grad():
        return sum(model(x).sum() for x, y in val_loader)

def main(only_evaluate):
    if only_evaluate:
        print(validate(model))
        {{}}
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

main(False)
"""
    assert plan_of(source.format("pass"))["skipped_validation"] == [16]
    plan = plan_of(source.format("return"))
    assert plan["skipped_validation"] == []
    assert "stays" not in str(plan["warnings"])


@pytest.mark.parametrize(("name", "told"), [("eval_policy", True), ("show", False)])
def test_an_evaluation_with_gradients_is_told(name: str, told: bool) -> None:
    function = f"def {name}(model):\n    return sum(model(x).item() for x, y in val_loader)\n"
    step = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"
    plan = plan_of(looped(step, before=f"{function}scores = [{name}(model)]"))
    assert plan["skipped_validation"] == []
    assert any("with gradients" in text for text in texts(plan["warnings"])) is told
