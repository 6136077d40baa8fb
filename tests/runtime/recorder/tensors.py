"""As much of a tensor as the recorder looks at, and what it wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def events(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    """The events in record.jsonl, of some kinds if named."""
    lines = (folder / "record.jsonl").read_text().splitlines()
    return [e for e in map(json.loads, lines) if not kinds or e["event"] in kinds]


@dataclass(frozen=True)
class Tensor:
    """Shape, data type, device."""

    shape: tuple[int, ...]
    dtype: str = "torch.float32"
    device: object = field(default_factory=lambda: SimpleNamespace(type="cpu"))
    requires_grad: bool = False
