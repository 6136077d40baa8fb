"""Data sizes in sight."""

from __future__ import annotations

import pytest

from instrumentor.kernels.model import Tensor
from tests.kernels.scripts import found


@pytest.mark.parametrize(
    ("line", "tensor"),
    [
        ("torch.rand(8, 16)", Tensor("x", 1, (8, 16), "float32", "host")),
        ("torch.rand((8, 16), dtype=torch.bfloat16)", Tensor("x", 1, (8, 16), "bfloat16", "host")),
        ("torch.zeros(size=SHAPE)", Tensor("x", 1, (2048, 64), "float32", "host")),
        ("torch.full((4, 4), 1.0)", Tensor("x", 1, (4, 4), "float32", "host")),
        ("torch.randint(0, 9, (4, 4))", Tensor("x", 1, (4, 4), "float32", "host")),
        ("ttnn.ones([1, 32])", Tensor("x", 1, (1, 32), "", "DRAM")),
        (
            "ttnn.zeros((32, 32), dtype=ttnn.bfloat8_b, memory_config=ttnn.L1_MEMORY_CONFIG)",
            Tensor("x", 1, (32, 32), "bfloat8_b", "L1"),
        ),
        (
            "ttnn.from_torch(torch.ones(4, 4), dtype=ttnn.bfloat16)",
            Tensor("x", 1, (4, 4), "bfloat16", "DRAM"),
        ),
        ("to_device(torch.ones(4, 4))", Tensor("x", 1, (4, 4), "float32", "DRAM")),
        ("torch.ones(4, 4).to(device)", Tensor("x", 1, (4, 4), "float32", "DRAM")),
    ],
)
def test_constructors(line: str, tensor: Tensor) -> None:
    (seen,) = found(f"x = {line}\nSHAPE = (2048, 64)\n").tensors
    assert seen == tensor


@pytest.mark.parametrize("line", ["torch.rand(n)", "torch.full(n, 1)", "numpy.ones((4, 4))", "5"])
def test_sizes_that_are_not_in_sight(line: str) -> None:
    assert found(f"x = {line}\n").tensors == ()


def test_imports_under_other_names() -> None:
    source = "import torch as th\nfrom torch import zeros as z\na = th.rand(8, 16)\nb = z((4, 4))\n"
    assert [tensor.shape for tensor in found(source).tensors] == [(8, 16), (4, 4)]


def test_names_are_followed_to_the_device() -> None:
    source = (
        "a = torch.rand(64, 32)\na = ttnn.from_torch(a, dtype=ttnn.bfloat16)\n"
        "b = ttnn.zeros_like(a)\nc = a\n"
    )
    a, b, c = found(source).tensors
    assert (a.shape, a.dtype, a.memory) == ((64, 32), "bfloat16", "DRAM")
    assert b.shape == (64, 32)
    assert (c.shape, c.memory) == ((64, 32), "DRAM")


def test_several_at_once_and_the_way_back() -> None:
    source = (
        "a, b = torch.rand(64, 32), torch.rand(32, 32)\n"
        "ad, bd = to_device(a), to_device(b)\ngot = ttnn.to_torch(ad)\nc, d = pair()\n"
    )
    seen = {tensor.name: (tensor.shape, tensor.memory) for tensor in found(source).tensors}
    assert seen == {
        "a": ((64, 32), "host"),
        "b": ((32, 32), "host"),
        "ad": ((64, 32), "DRAM"),
        "bd": ((32, 32), "DRAM"),
        "got": ((64, 32), "host"),
    }
