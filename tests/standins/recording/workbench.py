"""What the fixtures' scripts import from their own project: settings, devices, logs, data."""

import events
import torch


class Settings:
    """Any setting that a script asks for; numbers are small, texts are paths."""

    use_tt = True
    num_epochs = 3
    batch_size = 2
    learning_rate = 0.01
    gradient_accumulation_steps = 2
    val_steps_freq = 2
    steps_freq = 2
    checkpoint_freq = 2
    max_steps = 1000
    checkpoint_path = "model.pt"
    beta = 0.1
    rounds = 3

    def __init__(self, **values):
        self.__dict__.update(values)


class Devices:
    def __init__(self, settings=None):
        self.device = torch.device(torch.DEVICE[0])
        self.settings = settings

    def optimizer_step(self, optimizer):
        optimizer.step()
        events.add("sync")

    def sync(self):
        events.add("sync")


class Logger:
    def info(self, text):
        print("info", text)

    def log_metrics(self, values, step=0):
        print("metrics", step, sorted(values.items()))

    def error(self, text):
        print("error", text)

    def finish(self):
        events.add("finally")


class Checkpoints:
    def save_checkpoint(self, *args, **keywords):
        events.add("checkpoint")

    def should_save(self, step):
        return step % 2 == 0


class Net(torch.nn.Module):
    """A model whose class is defined elsewhere in the project."""


def load_model(*args, **keywords):
    return Net()


def load_reference(*args, **keywords):
    return Net().eval()


def train_loader(length=6):
    return torch.utils.data.DataLoader("train", length=length)


def val_loader(length=2):
    return torch.utils.data.DataLoader("val", length=length)


def rewards(texts):
    return torch.randn(2)


def get_batch(split="train"):
    if split != "train":
        events.add("validate")
    sequence = split if torch._grad[0] else "evaluation"
    return torch.Tensor(events.number(sequence)), torch.Tensor(events.number(sequence))
