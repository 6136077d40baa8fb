"""Stand-in for torch: a model whose backward takes as long as its settings say it does.

The time is made in torch_xla's stand-in, from the compile options in effect, the model's type and
the batch. A type that does not fit the model's is an error, as it is in torch.
"""

import os
import types

__version__ = "2.7.0"
float32, bfloat16, int64 = "float32", "bfloat16", "int64"
_XLA = types.SimpleNamespace(type=os.environ.get("TUNING_DEVICE", "xla"), index=0)


class Tensor:
    def __init__(self, shape, dtype=float32, work=None):
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = _XLA
        self.work = work

    def to(self, target=None, dtype=None):
        wanted = dtype or (target if target in (float32, bfloat16, int64) else None)
        return Tensor(self.shape, wanted or self.dtype, self.work)

    def is_floating_point(self):
        return self.dtype != int64

    def numel(self):
        return 1 if not self.shape else self.shape[0]

    def backward(self):
        self.work.run()

    def item(self):
        return self.work.loss()


class Linear:
    def __init__(self):
        self.dtype = float32

    def to(self, target=None, dtype=None):
        self.dtype = dtype or (target if target == bfloat16 else self.dtype)
        return self

    def parameters(self):
        return [self]

    def train(self):
        return self

    def __call__(self, batch):
        import torch_xla

        if batch.dtype != self.dtype:
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, {batch.dtype}")
        return Tensor((), self.dtype, torch_xla.Work(self.dtype, batch.shape[0]))


class SGD:
    def __init__(self, parameters):
        self.parameters = parameters

    def step(self):
        pass

    def zero_grad(self, set_to_none=True):
        pass


def is_tensor(value):
    return isinstance(value, Tensor)


def randn(*shape, dtype=float32):
    return Tensor(shape, dtype)
