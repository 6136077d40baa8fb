"""Stand-in for ttnn: tensors are one number and a shape; nothing of it is real.

Only what the kernels in fixtures/kernels use, by the names that ttnn has.
"""

import numpy

bfloat16 = "bfloat16"
float32 = "float32"
TILE_LAYOUT = "TILE"
DRAM_MEMORY_CONFIG = "DRAM"
L1_MEMORY_CONFIG = "L1"


class Device:
    def __init__(self, device_id):
        self.device_id = device_id


class Tensor:
    """A tensor of equal elements."""

    def __init__(self, shape, value, dtype=bfloat16):
        self.shape, self.value, self.dtype = tuple(shape), value, dtype

    def __getitem__(self, key):
        return Slice(self)


class Slice:
    def __init__(self, tensor):
        self.tensor = tensor


class HostTensor:
    """What to_torch gives: enough of a torch tensor to check and to save."""

    def __init__(self, array):
        self.array = array

    def float(self):
        return self

    def numpy(self):
        return self.array

    def __getattr__(self, name):
        return lambda: HostTensor(getattr(self.array, name)())

    def item(self):
        return float(self.array)


def open_device(device_id=0, **options):
    return Device(device_id)


def close_device(device):
    pass


def full(shape, value, dtype=bfloat16, layout=None, device=None, memory_config=None):
    return Tensor(shape, value, dtype)


def ones(shape, dtype=bfloat16, layout=None, device=None, memory_config=None):
    return Tensor(shape, 1.0, dtype)


def zeros(shape, dtype=bfloat16, layout=None, device=None, memory_config=None):
    return Tensor(shape, 0.0, dtype)


def multiply(a, b):
    return Tensor(a.shape, a.value * b.value, a.dtype)


def to_torch(tensor):
    return HostTensor(numpy.full(tensor.shape, tensor.value, dtype="float32"))
