"""Keywords of DataLoader and the optimizer: set where the script has the call, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune.edits import way_of
from instrumentor.tune.settings import Value, setting
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TORCH, accepted, set_by, target_of

LOADER = "DataLoader(images, batch_size=32, shuffle=True)"


def after(folder: Path, text: str, name: str, value: Value = True) -> str:
    """The script's text with a setting."""
    target = target_of(folder, text)
    return accepted(target, set_by(way_of(target, setting(name)), value, target))


def refused(folder: Path, text: str, name: str) -> str:
    """Why a setting is not tried."""
    target = target_of(folder, text)
    with pytest.raises(NotApplicable) as caught:
        set_by(way_of(target, setting(name)), True, target)
    return f"{caught.value.line}: {caught.value.reason}"


def own(folder: Path, text: str, name: str) -> object:
    """What the script has itself."""
    found = way_of(target_of(folder, text), setting(name)).own
    assert found is not None
    return found[2]


def test_workers_come_with_persistence_behind_the_last_argument(tmp_path: Path) -> None:
    text = after(tmp_path, TORCH, "num_workers", 2)
    assert f"{LOADER[:-1]}, num_workers=2, persistent_workers=True)  # of training" in text
    assert text.count("num_workers") == 1  # validation is not what training waits for
    assert own(tmp_path, TORCH, "num_workers") == 0


def test_a_number_that_stands_there_is_replaced_whatever_makes_it(tmp_path: Path) -> None:
    several = TORCH.replace(LOADER, "DataLoader(\n        images,\n        num_workers=4,\n    )")
    text = after(tmp_path, several, "num_workers", 8)
    assert "        num_workers=8, persistent_workers=True,\n    )" in text
    assert own(tmp_path, several, "num_workers") == 4
    computed = several.replace("num_workers=4", "num_workers=len(images) // 9")
    assert "num_workers=2, persistent" in after(tmp_path, computed, "num_workers", 2)
    assert own(tmp_path, computed, "num_workers") is None


def test_what_the_script_has_already_is_no_change(tmp_path: Path) -> None:
    some = TORCH.replace("shuffle=True)", "shuffle=True, num_workers=2, persistent_workers=True)")
    assert after(tmp_path, some, "num_workers", 2) == some
    assert after(tmp_path, some, "num_workers", 4) != some


def test_no_workers_are_not_made_persistent(tmp_path: Path) -> None:
    assert "persistent" not in after(tmp_path, TORCH, "num_workers", 0)
    assert "32: the loader has no workers" in refused(tmp_path, TORCH, "persistent_workers")
    some = TORCH.replace("shuffle=True)", "shuffle=True, num_workers=2)")
    assert "num_workers=2, persistent_workers=True)" in after(tmp_path, some, "persistent_workers")


@pytest.mark.parametrize(
    ("old", "new", "name", "why"),
    [
        ("Dataset):", "IterableDataset):", "num_workers", "every worker would load all of it"),
        (LOADER, "DataLoader(images, **more)", "pin_memory", "come out of a dictionary"),
        (LOADER, "DataLoader(images, 8, True, None, None, 2)", "num_workers", "by position"),
        ("DataLoader(", "list(", "num_workers", "no torch.utils.data.DataLoader is made"),
        ("AdamW(", "RMSprop(", "fused_optimizer", "no optimizer of torch.optim that has a fused"),
        ("lr=1e-3", "foreach=True", "fused_optimizer", "given foreach"),
    ],
)
def test_what_cannot_be_right_is_refused(
    tmp_path: Path, old: str, new: str, name: str, why: str
) -> None:
    text = (
        TORCH.replace("import DataLoader, Dataset", "import *") if old == "DataLoader(" else TORCH
    )
    assert why in refused(tmp_path, text.replace(old, new), name)


def test_under_another_name_and_with_another_setting_in_the_same_call(tmp_path: Path) -> None:
    script = TORCH.replace("DataLoader, ", "DataLoader as Batches, ").replace(
        "DataLoader(", "Batches("
    )
    target = target_of(tmp_path, script)
    changes = set_by(way_of(target, setting("pin_memory")), True, target)
    way_of(target, setting("num_workers")).apply(2, changes)
    way_of(target, setting("batch_size")).apply(64, changes)
    text = accepted(target, changes)
    assert "batch_size=64, shuffle=True, pin_memory=True, num_workers=2, persistent" in text


def test_each_optimizer_is_fused(tmp_path: Path) -> None:
    script = TORCH.replace(
        "    criterion", "    other = optim.SGD(model.parameters(), 0.1)\n    criterion"
    )
    text = after(
        tmp_path,
        script.replace("import torch\n", "import torch\nfrom torch import optim\n"),
        "fused_optimizer",
    )
    assert "lr=1e-3, fused=True)" in text and "SGD(model.parameters(), 0.1, fused=True)" in text
