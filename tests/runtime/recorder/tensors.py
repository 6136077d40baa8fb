"""As much of a tensor as the recorder looks at."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace


@dataclass(frozen=True)
class Tensor:
    """Shape, data type, device."""

    shape: tuple[int, ...]
    dtype: str = "torch.float32"
    device: object = field(default_factory=lambda: SimpleNamespace(type="cpu"))
    requires_grad: bool = False
