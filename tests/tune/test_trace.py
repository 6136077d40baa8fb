"""Runtime trace: room for it before torch_xla is imported, gradients that stay where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune import trace
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TRAIN, changed

LINE = 'os.environ.setdefault("TT_RUNTIME_TRACE_REGION_SIZE", "10000000")\n'


def traced(tmp_path: Path, text: str) -> str:
    """The script's text with room for trace."""
    return changed(tmp_path, text, trace.apply)


def test_ahead_of_every_import(tmp_path: Path) -> None:
    text = traced(tmp_path, TRAIN)
    assert text.startswith(f'"""A training script."""\nimport os\n\n{LINE}import torch\n')


@pytest.mark.parametrize(
    ("script", "order"),
    [
        ("from __future__ import annotations\n" + TRAIN, ["__future__", LINE, "import torch\n"]),
        (TRAIN.replace("import torch\n", "import torch\nimport os\n", 1), [LINE, "import torch\n"]),
        (TRAIN.replace("import torch\n", "import torch\nos = 3\n", 1),
         [LINE, "import torch\n", "os = 3\n"]),
    ],
)  # fmt: skip
def test_before_torch_is_imported(tmp_path: Path, script: str, order: list[str]) -> None:
    """Behind future imports; an import of os, or a name of the script's own, comes too late."""
    text = traced(tmp_path, script)
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_behind_an_import_of_os_that_is_early_enough(tmp_path: Path) -> None:
    text = traced(tmp_path, TRAIN.replace("import torch\n", "import sys, os\nimport torch\n", 1))
    assert f"import sys, os\n{LINE}import torch\n" in text
    assert text.count("import os") == 0


def test_a_region_that_is_set_already_stays(tmp_path: Path) -> None:
    own = 'import os\nos.environ["TT_RUNTIME_TRACE_REGION_SIZE"] = "5"\n' + TRAIN
    assert traced(tmp_path, own) == own


def test_without_the_program_cache_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = 'import os\nos.environ["TT_RUNTIME_ENABLE_PROGRAM_CACHE"] = "0"\n' + TRAIN
    with pytest.raises(NotApplicable, match="cache"):
        traced(tmp_path, off)
    monkeypatch.setenv("TT_RUNTIME_ENABLE_PROGRAM_CACHE", "0")
    with pytest.raises(NotApplicable, match="environment"):
        traced(tmp_path, TRAIN)


@pytest.mark.parametrize("given", ["", "set_to_none=True", "set_to_none=False"])
def test_with_accumulation_gradients_are_zeroed_in_place(tmp_path: Path, given: str) -> None:
    body = (
        "        loss = model(batch)\n        loss.backward()\n        if (step + 1) % 4 == 0:\n"
        f"            optimizer.step()\n            optimizer.zero_grad({given})\n"
    )
    start = TRAIN.index("        optimizer.zero_grad()")
    script = TRAIN[:start] + body + TRAIN[TRAIN.index("\n\nif __name__") :]
    assert "optimizer.zero_grad(set_to_none=False)" in traced(tmp_path, script)


def test_without_accumulation_they_are_left(tmp_path: Path) -> None:
    assert "optimizer.zero_grad()" in traced(tmp_path, TRAIN)
