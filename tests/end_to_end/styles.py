"""Training scripts in six styles, as people write them: what a first hour is made of."""

from __future__ import annotations

PLAIN = """\
import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(2048, 20)
Y = (X.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters())
for step in range(200):
    index = torch.randint(0, len(X), (128,))
    out = model(X[index])
    loss = nn.functional.cross_entropy(out, Y[index])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
"""
PARSED = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(args):
    data = TensorDataset(torch.randn(640, 16), torch.randint(0, 4, (640,)))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=4)
    train(parser.parse_args())
"""
TRAINER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def on_step(self, trainer, loss):
        trainer.history.append(loss)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 24, batch_first=True)
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Trainer:
    def __init__(self, model, loader, val_loader, callbacks):
        self.model, self.loader, self.val_loader = model, loader, val_loader
        self.callbacks = callbacks
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.criterion = nn.CrossEntropyLoss()
        self.history = []

    def training_step(self, batch):
        x, y = batch
        return self.criterion(self.model(x), y)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            for batch in self.loader:
                loss = self.training_step(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                for callback in self.callbacks:
                    callback.on_step(self, loss.item())
            self.validate()

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            total = sum(self.criterion(self.model(x), y).item() for x, y in self.val_loader)
        print("validation", total)


if __name__ == "__main__":
    def loader():
        data = TensorDataset(torch.randn(512, 9, 12), torch.randint(0, 3, (512,)))
        return DataLoader(data, 16, shuffle=True)

    Trainer(Tagger(), loader(), loader(), [Callback()]).fit(4)
"""
GAN = """\
import torch
from torch import nn

G = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
D = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(), nn.Linear(32, 1))
opt_g = torch.optim.Adam(G.parameters(), 2e-4)
opt_d = torch.optim.Adam(D.parameters(), 2e-4)
bce = nn.BCEWithLogitsLoss()
for i in range(100):
    real = torch.randn(64, 16)
    fake = G(torch.randn(64, 8))
    d_loss = bce(D(real), torch.ones(64, 1)) + bce(D(fake.detach()), torch.zeros(64, 1))
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = bce(D(fake), torch.ones(64, 1))
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if i % 20 == 0:
        print(i, d_loss.item(), g_loss.item())
"""
HF_TRAINER = """\
import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset, data_collator):
        self.model, self.args = model, args
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.data_collator = data_collator

    def get_dataloader(self, dataset, shuffle):
        size, collate = self.args.batch_size, self.data_collator
        return DataLoader(dataset, batch_size=size, shuffle=shuffle, collate_fn=collate)

    def create_optimizer(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.args.lr)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1.0)

    def training_step(self, inputs):
        self.model.train()
        loss = self.model(**inputs)["loss"] / self.args.accumulation
        loss.backward()
        return loss.detach()

    def train(self):
        self.create_optimizer()
        losses, global_step = [], 0
        for epoch in range(self.args.epochs):
            for step, inputs in enumerate(self.get_dataloader(self.train_dataset, True)):
                losses.append(self.training_step(inputs))
                if (step + 1) % self.args.accumulation == 0:
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()
                    self.scheduler.step()
                    self.optimizer.zero_grad()
                    global_step += 1
            self.evaluate()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        loader = self.get_dataloader(self.eval_dataset, False)
        return sum(self.model(**inputs)["loss"].item() for inputs in loader)
"""
HF_SCRIPT = """\
import argparse
import os
import sys
from dataclasses import dataclass

import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from trainer import Trainer


@dataclass
class Arguments:
    batch_size: int = 8
    lr: float = 1e-3
    epochs: int = 2
    accumulation: int = 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50)

    def forward(self, input_ids, labels):
        logits = self.head(self.embed(input_ids))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


def collate(rows):
    ids = torch.stack(rows)
    return {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}


def main():
    dataset = [torch.randint(0, 50, (12,)) for _ in range(256)]
    Trainer(Model(), Arguments(), dataset, dataset[:32], collate).train()


if __name__ == "__main__":
    main()
"""
ENGINE = """\
def steps(model, loader, optimizer, criterion):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        yield loss.item()
"""
PACKAGE = """\
import torch
from torch import nn

from .engine import steps


def main():
    model = nn.Linear(8, 2)
    loader = [(torch.randn(16, 8), torch.randint(0, 2, (16,))) for _ in range(60)]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for loss in steps(model, loader, optimizer, nn.CrossEntropyLoss()):
        pass
    print("done", loss)


if __name__ == "__main__":
    main()
"""

#: Files by path.
FILES = {
    "plain.py": PLAIN,
    "parsed.py": PARSED,
    "trainer.py": TRAINER,
    "gan.py": GAN,
    "hf/__init__.py": "",
    "hf/trainer.py": HF_TRAINER,
    "hf/run_clm.py": HF_SCRIPT,
    "pkg/__init__.py": "",
    "pkg/engine.py": ENGINE,
    "pkg/train.py": PACKAGE,
    "pyproject.toml": "",
}
