"""Training scripts composed from the axes of a census of real ones, for hypothesis.

A :class:`Shape` is one point; :func:`compose` writes it as a script that runs under the
recording stand-ins, and knows what a careful reader would say about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

AXES = {
    "place": ("module", "function", "method", "main"),
    "loop": ("for", "enumerate", "tqdm", "while", "refill", "islice"),
    "forward": ("loss", "logits", "autocast", "helper"),
    "backward": ("plain", "divided", "summed", "scaled", "autograd", "accelerator"),
    "sync": ("none", "bare", "guarded", "mark_step"),
    "update": ("plain", "synced", "manager", "scheduler", "clipped"),
    "counter": ("none", "before", "after"),
    "accumulation": ("none", "branch", "continue", "nested", "compare"),
    "read": ("none", "before", "print", "dependent", "behind", "tensor"),
    "initial": ("none", "bare", "bound", "guarded"),
    "in_loop": ("none", "validation", "checkpoint", "both"),
    "guard": ("none", "except", "bare", "finally"),
    "value": ("none", "used", "unused"),
    "indent": ("    ", "  ", "\t"),
    "outer": (0, 1, 2),
}
SWITCHES = ("helper", "zero_first", "logged", "comments", "joined", "crlf", "final_newline")


@dataclass(frozen=True)
class Shape:
    """One choice on every axis."""

    place: str = "function"
    outer: int = 1
    loop: str = "for"
    forward: str = "loss"
    backward: str = "plain"
    helper: bool = False
    sync: str = "none"
    update: str = "plain"
    zero_first: bool = True
    counter: str = "after"
    accumulation: str = "none"
    read: str = "none"
    initial: str = "none"
    in_loop: str = "none"
    guard: str = "none"
    value: str = "none"
    logged: bool = True
    indent: str = "    "
    comments: bool = False
    joined: bool = False
    crlf: bool = False
    final_newline: bool = True


def shapes() -> st.SearchStrategy[Shape]:
    """Any combination that makes sense."""
    axes = AXES | dict.fromkeys(SWITCHES, (False, True))
    chosen = {name: st.sampled_from(choices) for name, choices in axes.items()}
    return st.builds(Shape, **chosen).map(_sensible)


def _sensible(shape: Shape) -> Shape:
    """Replace choices that contradict each other."""
    if shape.place == "module":
        shape = replace(shape, value="none")
        if shape.guard == "bare":  # nothing but SystemExit could leave, and it would be eaten
            shape = replace(shape, guard="finally")
    if shape.guard == "bare":
        shape = replace(shape, value="none")
    if shape.accumulation != "none" and shape.zero_first:
        shape = replace(shape, zero_first=False)
    if shape.backward == "accelerator" and shape.accumulation == "nested":
        shape = replace(shape, backward="plain")
    if shape.helper:
        shape = replace(shape, read="none" if shape.read != "behind" else "behind")
    if shape.accumulation == "nested" and shape.counter == "before":
        shape = replace(shape, counter="after")
    return shape


HEAD = '''\
"""A generated training script."""
import itertools
import os

os.environ["PJRT_DEVICE"] = "TT"

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from accelerate import Accelerator
from tqdm import tqdm

from workbench import Devices, Logger, Settings, load_model, train_loader, val_loader

accelerator = Accelerator()
scaler = torch.amp.GradScaler()
criterion = torch.nn.MSELoss()
'''

VALIDATE = """\
def validate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for inputs, labels in loader:
            total += criterion(model(inputs), labels).item()
    model.train()
    return total
"""

LOSS = """\
def compute_loss(model, inputs, labels):
    return criterion(model(inputs), labels)
"""


class Writer:
    """Lines with a depth of indentation."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.lines: list[str] = []
        self.depth = 0

    def add(self, *lines: str) -> None:
        for line in lines:
            self.lines.append(self.shape.indent * self.depth + line)

    def block(self, text: str) -> None:
        """A block written with four spaces."""
        for line in text.splitlines():
            bare = line.lstrip(" ")
            depth = (len(line) - len(bare)) // 4 + self.depth
            self.lines.append(self.shape.indent * depth + bare if bare else "")

    def enter(self, line: str) -> None:
        self.add(line)
        self.depth += 1


def compose(shape: Shape) -> bytes:
    """The script of a shape."""
    out = Writer(shape)
    out.block(HEAD)
    for text in (VALIDATE, LOSS):
        out.add("", "")
        out.block(text)
    if shape.helper:
        out.add("", "")
        out.enter("def training_step(model, inputs, labels, settings):")
        _forward(out)
        _backward(out)
        _sync(out)
        out.add("return loss")
        out.depth = 0
    out.add("", "")
    _around(out)
    text = "\n".join(out.lines) + ("\n" if shape.final_newline else "")
    if shape.crlf:
        text = text.replace("\n", "\r\n")
    return text.encode()


def _setup(out: Writer) -> None:
    out.add(
        "model = load_model()",
        "optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)",
        "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, None)",
        "devices = Devices(settings)",
        "logger = Logger()",
        "global_step = 0",
        "accumulated = 0",
        "history = []",
    )


def _around(out: Writer) -> None:
    shape = out.shape
    if shape.place == "module":
        out.add("settings = Settings()")
        _setup(out)
        _guarded(out)
        return
    if shape.place == "method":
        out.enter("class Experiment:")
        out.enter("def train(self, settings):")
    else:
        out.enter(f"def {'main' if shape.place == 'main' else 'train'}(settings):")
    _setup(out)
    _guarded(out)
    if shape.value != "none":
        out.add("return history")
    out.depth = 0
    out.add("", "")
    call = "Experiment().train(settings)" if shape.place == "method" else ""
    call = call or ("main(settings)" if shape.place == "main" else "train(settings)")
    if shape.place == "function":
        out.enter("def main():")
        out.add("settings = Settings()")
        _call(out, call)
        out.depth = 0
        out.add("", "", 'if __name__ == "__main__":', f"{shape.indent}main()")
    else:
        out.enter('if __name__ == "__main__":')
        out.add("settings = Settings()")
        _call(out, call)


def _call(out: Writer, call: str) -> None:
    if out.shape.value == "used":
        out.add(f"result = {call}", 'print("best", min(result))')
    else:
        out.add(call)


def _guarded(out: Writer) -> None:
    shape = out.shape
    if shape.guard == "none":
        _initial(out)
        _loops(out)
        return
    depth = out.depth
    out.enter("try:")
    _initial(out)
    _loops(out)
    out.depth = depth
    if shape.guard == "except":
        out.add("except Exception as error:", f"{shape.indent}logger.error(str(error))")
        out.add(f"{shape.indent}raise")
    elif shape.guard == "bare":
        out.add("except:", f'{shape.indent}logger.error("failed")')
    out.add("finally:", f"{shape.indent}logger.finish()")


def _initial(out: Writer) -> None:
    shape = out.shape
    if shape.initial == "bare":
        out.add("validate(model, val_loader())")
    elif shape.initial == "bound":
        out.add("val_loss = validate(model, val_loader())")
        out.add('logger.log_metrics({"val/loss": val_loss}, step=global_step)')
    elif shape.initial == "guarded":
        out.enter("if settings.use_tt:")
        out.add("val_loss = validate(model, val_loader())")
        out.add('logger.info(f"val {val_loss:.3f}")')
        out.depth -= 1
    out.add("model.train()")


def _loops(out: Writer) -> None:
    shape = out.shape
    depth = out.depth
    for level in range(shape.outer):
        out.enter(f"for {('epoch', 'repeat')[level]} in range(3):")
    _comment(out, "one batch after the other")
    length = 40 if shape.outer == 0 else 6
    loader = f"train_loader({length})"
    if shape.loop == "enumerate":
        out.enter(f"for index, (inputs, labels) in enumerate({loader}):")
    elif shape.loop == "tqdm":
        out.enter(f'for inputs, labels in tqdm({loader}, desc="train"):')
    elif shape.loop == "islice":
        out.enter(f"for inputs, labels in itertools.islice({loader}, 30):")
    elif shape.loop == "while":
        out.add(f"batches = iter({loader})", "rounds = 0")
        out.enter(f"while rounds < {length}:")
        out.add("rounds += 1", "inputs, labels = next(batches)")
    elif shape.loop == "refill":
        out.add(f"batches = iter({loader})", "rounds = 0")
        out.enter("while True:")
        out.add("rounds += 1")
        out.add("if rounds > 30:", f"{shape.indent}break")
        out.enter("try:")
        out.add("inputs, labels = next(batches)")
        out.depth -= 1
        out.enter("except StopIteration:")
        out.add(f"batches = iter({loader})", "inputs, labels = next(batches)")
        out.depth -= 1
    else:
        out.enter(f"for inputs, labels in {loader}:")
    _iteration(out)
    out.depth = depth


def _comment(out: Writer, text: str) -> None:
    if out.shape.comments:
        out.add("", f"# {text}")


def _iteration(out: Writer) -> None:
    shape = out.shape
    if shape.counter == "before":
        out.add("global_step += 1")
    _comment(out, "to the device")
    _pair(out, "inputs = inputs.to(devices.device)", "labels = labels.to(devices.device)")
    if shape.zero_first:
        out.add("optimizer.zero_grad()")
    if shape.accumulation == "nested":
        out.enter("for micro_step in range(2):")
        _step(out)
        out.depth -= 1
    else:
        _step(out)
    _comment(out, "the update")
    if shape.accumulation == "branch":
        out.add("accumulated += 1")
        out.enter("if accumulated % settings.gradient_accumulation_steps == 0:")
        _update(out)
        out.depth -= 1
    elif shape.accumulation == "compare":
        out.add("accumulated += 1")
        out.enter("if accumulated == settings.gradient_accumulation_steps:")
        _update(out)
        out.add("accumulated = 0")
        out.depth -= 1
    elif shape.accumulation == "continue":
        out.add("accumulated += 1")
        out.enter("if accumulated < settings.gradient_accumulation_steps:")
        out.add("continue")
        out.depth -= 1
        _update(out)
        out.add("accumulated = 0")
    else:
        _update(out)
    if shape.counter == "after" and shape.accumulation not in ("branch", "compare"):
        out.add("global_step += 1")
    _afterwards(out)


def _pair(out: Writer, *lines: str) -> None:
    """Two statements on one line, or on two."""
    if out.shape.joined:
        out.add("; ".join(lines))
    else:
        out.add(*lines)


def _step(out: Writer) -> None:
    shape = out.shape
    if shape.helper:
        out.add("loss = training_step(model, inputs, labels, settings)")
    else:
        _forward(out)
        if shape.read == "before":
            out.add("history.append(loss.item())")
        elif shape.read == "dependent":
            out.add("number = loss.item()", "history.append(number)")
            out.add('print(f"loss {number:.4f}")')
        elif shape.read == "tensor":
            out.add("running = loss.detach() * 2")
        _backward(out)
        if shape.read == "print":
            out.add('print("loss", loss.item())')
        _sync(out)
    if shape.read == "behind":
        out.add("history.append(loss.item())")


def _forward(out: Writer) -> None:
    shape = out.shape
    if shape.forward == "loss":
        out.add("loss = criterion(model(inputs), labels)")
    elif shape.forward == "logits":
        out.add("logits = model(inputs)", "loss = criterion(", f"{shape.indent}logits,")
        out.add(f"{shape.indent}labels,", ")")
    elif shape.forward == "autocast":
        out.enter('with torch.autocast("cuda", dtype=torch.bfloat16):')
        _pair(out, "logits = model(inputs)", "loss = criterion(logits, labels)")
        out.depth -= 1
    else:
        out.add("loss = compute_loss(model, inputs, labels)")


def _backward(out: Writer) -> None:
    out.add(
        {
            "plain": "loss.backward()",
            "divided": "(loss / settings.gradient_accumulation_steps).backward()",
            "summed": "loss.sum().backward()",
            "scaled": "scaler.scale(loss).backward()",
            "autograd": "torch.autograd.backward([loss])",
            "accelerator": "accelerator.backward(loss)",
        }[out.shape.backward]
    )


def _sync(out: Writer) -> None:
    if out.shape.sync == "bare":
        out.add("torch_xla.sync(wait=True)")
    elif out.shape.sync == "mark_step":
        out.add("xm.mark_step()")
    elif out.shape.sync == "guarded":
        out.add("if settings.use_tt:", f"{out.shape.indent}torch_xla.sync(wait=True)")


def _update(out: Writer) -> None:
    shape = out.shape
    if shape.update == "clipped":
        out.add("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
    if shape.backward == "scaled":
        _pair(out, "scaler.step(optimizer)", "scaler.update()")
    elif shape.update == "manager":
        out.add("devices.optimizer_step(optimizer)")
    else:
        out.add("optimizer.step()")
    if shape.update == "scheduler":
        out.add("scheduler.step()")
    if not shape.zero_first:
        out.add("optimizer.zero_grad()")
    if shape.update == "synced":
        out.add("if settings.use_tt:", f"{shape.indent}torch_xla.sync(wait=True)")
    if shape.counter == "after" and shape.accumulation in ("branch", "compare"):
        out.add("global_step += 1")


def _afterwards(out: Writer) -> None:
    shape = out.shape
    step = "global_step" if shape.counter != "none" else "1"
    if shape.value != "none" or shape.logged:
        out.add("history.append(loss.item())")
        out.add(f'logger.log_metrics({{"loss": history[-1]}}, step={step})')
    if shape.in_loop in ("validation", "both"):
        out.enter(f"if {step} % settings.val_steps_freq == 0:")
        out.add("val_loss = validate(model, val_loader())")
        out.add(f'logger.log_metrics({{"val/loss": val_loss}}, step={step})')
        out.depth -= 1
    if shape.in_loop in ("checkpoint", "both"):
        out.enter(f"if {step} % settings.checkpoint_freq == 0:")
        out.add("torch.save(model.state_dict(), settings.checkpoint_path)")
        out.depth -= 1
