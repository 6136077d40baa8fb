"""Stand-in for accelerate: an optimizer that steps only every ``gradient_accumulation_steps``."""

import contextlib


class _Prepared:
    def __init__(self, accelerator, optimizer):
        self.accelerator, self.optimizer = accelerator, optimizer

    def step(self):
        if self.accelerator.sync_gradients:
            self.optimizer.step()

    def zero_grad(self):
        if self.accelerator.sync_gradients:
            self.optimizer.zero_grad()


class Accelerator:
    def __init__(self, gradient_accumulation_steps=1, **keywords):
        self.every, self.count, self.sync_gradients = gradient_accumulation_steps, 0, True
        self.device, self.is_main_process = "xla", True

    def prepare(self, model, optimizer, *others):
        return (model, _Prepared(self, optimizer), *others)

    @contextlib.contextmanager
    def accumulate(self, model):
        self.count += 1
        self.sync_gradients = self.count % self.every == 0
        yield

    def backward(self, loss):
        (loss / self.every).backward()

    def clip_grad_norm_(self, parameters, limit):
        pass

    def gather(self, value):
        return value

    def log(self, values, step=None):
        print("log", step, sorted(values.items()))
