"""Settings as edits: together with the measuring in a copy, and alone as a patch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from instrumentor.rewrite.engine import apply_edits, strip
from instrumentor.rewrite.line_format import MARKER
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import ProofFailed
from instrumentor.shared.options import Options
from instrumentor.tune.edits import Applicable, accept, applied, patch, prepared, survey
from instrumentor.tune.settings import SETTINGS, setting
from instrumentor.tune.target import NotApplicable, read_target
from tests.conftest import RepoFactory
from tests.tune.scripts import INFER, TRAIN, configuration, target_of

EVERYTHING = configuration(
    optimization_level=2, dtype="bfloat16", bfp8=True, trace=True, batch_size=8
)
OF_XLA = [setting(name) for name, _ in EVERYTHING.values]


def test_all_settings_and_the_measuring_in_one_copy_that_can_be_undone(tmp_path: Path) -> None:
    target = target_of(tmp_path, TRAIN)
    made = prepared(target, EVERYTHING)
    code = made.replacements[target.script]
    assert strip(code) == TRAIN.encode()
    text = code.decode()
    assert "_instrument.begin(" in text and "enable_bfp8_conversion" in text
    assert "TT_RUNTIME_TRACE_REGION_SIZE" in text
    assert text.index("TT_RUNTIME_TRACE") < text.index("import torch_xla")


def test_the_patch_is_the_same_change_without_measuring_or_marks(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": TRAIN, "pyproject.toml": ""})
    target = target_of(repo, TRAIN)
    change = patch(target, EVERYTHING)
    assert b"instrument" not in change
    subprocess.run(["git", "apply", "-"], cwd=repo, input=change, check=True)
    text = (repo / "train.py").read_text()
    compile(text, "train.py", "exec")
    for part in ('"optimization_level": 2', '"enable_trace": "true"', "batch_size = 8  # what"):
        assert part in text
    # What was applied is what the script has itself from then on.
    found = survey(target_of(repo, text), OF_XLA)
    own = {name: at.own for name, at in found.items() if isinstance(at, Applicable)}
    assert own == {"dtype": "bfloat16", "batch_size": 8, "optimization_level": 2, "bfp8": True,
                   "trace": True}  # fmt: skip


def test_the_configuration_of_the_script_as_it_is_changes_nothing(tmp_path: Path) -> None:
    target = target_of(tmp_path, TRAIN)
    one = applied(target, configuration())
    assert (one.edits, one.files, one.arguments) == ((), (), ())
    assert patch(target, configuration()) == b""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_files_with_other_newlines_and_without_a_last_one(tmp_path: Path, newline: str) -> None:
    text = TRAIN.rstrip("\n")
    target_of(tmp_path, text)
    (tmp_path / "train.py").write_bytes(text.replace("\n", newline).encode())
    target = read_target(tmp_path / "train.py", (), tmp_path, Options())
    made = prepared(target, EVERYTHING)
    assert strip(made.replacements[target.script]) == text.replace("\n", newline).encode()
    change = patch(target, EVERYTHING)
    lines = [line for line in change.split(b"\n") if line[:1] == b"+" and line[:3] != b"+++"]
    assert all(line.endswith(b"\r") == (newline == "\r\n") for line in lines)


def test_the_survey_says_where_each_acts_and_what_the_script_has(tmp_path: Path) -> None:
    found = survey(target_of(tmp_path, TRAIN), SETTINGS)
    assert {n: (s.line, s.own) for n, s in found.items() if isinstance(s, Applicable)} == {
        "channels_last": (12, False),
        "tf32": (4, False),
        "amp": (18, None),
        "compile": (12, False),
        "optimization_level": (9, 0),
        "dtype": (12, None),
        "bfp8": (10, False),
        "trace": (10, False),
        "batch_size": (14, 4),
    }


def test_bfp8_needs_a_model_that_can_be_bfloat16(tmp_path: Path) -> None:
    mixed = TRAIN.replace("    for step", "    scaler = torch.GradScaler()\n    for step")
    found = survey(target_of(tmp_path, mixed), [setting("bfp8")])["bfp8"]
    assert isinstance(found, NotApplicable)
    assert (found.line, "GradScaler" in found.reason) == (15, True)


def test_edits_inside_of_what_is_switched_off_go_into_the_patch_alone(tmp_path: Path) -> None:
    check = (
        "        if step % 10 == 0:\n            model.eval()\n"
        "            with torch.no_grad():\n                for x in val_loader:\n"
        "                    x = x.to(device)\n                    val_loss = model(x)\n"
        "            model.train()\n"
    )
    script = TRAIN.replace("\n\n\nif __name__", f"\n{check}\n\nif __name__")
    target = target_of(tmp_path, script)
    made = prepared(target, configuration(dtype="bfloat16"))
    assert strip(made.replacements[target.script]) == script.encode()
    assert b"if torch.is_tensor(x) and" in patch(target, configuration(dtype="bfloat16"))


def test_a_script_that_has_everything_on_is_changed_in_its_own_words(tmp_path: Path) -> None:
    target = target_of(tmp_path, INFER)
    found = survey(target, OF_XLA)
    own = {name: at.own for name, at in found.items() if isinstance(at, Applicable)}
    assert own == {"optimization_level": 2, "dtype": "bfloat16", "bfp8": True, "trace": True,
                   "batch_size": 64}  # fmt: skip
    change = patch(target, configuration(optimization_level=1, batch_size=32)).decode()
    assert [line for line in change.splitlines() if line[:1] in "+-" and line[1:2] == " "] == [
        '-            "optimization_level": 2,',
        '+            "optimization_level": 1,',
        "-    batch_size = 64",
        "+    batch_size = 32",
    ]


#: What an edit can touch: a docstring's end, two statements in a line, a comment behind a call.
SOURCE = '''\
"""Doc."""
import a
if a: x = 1; y = 2
def f():
    return (1,
            2)  # pair
'''


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([Edit(Kind.PRELUDE, None, "import os\n\nos.x = 1")],
         SOURCE.replace("import a\n", "import os\n\nos.x = 1\nimport a\n", 1)),
        ([Edit(Kind.DISABLE, Statement(2, 0), "import b  # new")],
         SOURCE.replace("import a\n", "import b  # new\n")),
        ([Edit(Kind.DISABLE, Statement(3, 6), "x = 7")],
         SOURCE.replace("if a: x = 1; y = 2\n", "if a:\n    x = 7\n    y = 2\n")),
        ([Edit(Kind.INSERT_BEFORE, Statement(5, 4), "g(\n    1,\n)")],
         SOURCE.replace("    return", "    g(\n        1,\n    )\n    return")),
        ([Edit(Kind.DISABLE, Statement(5, 4))],
         SOURCE.replace("    return (1,\n            2)  # pair\n", "    pass\n")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_same_meaning_no_marks(edits: list[Edit], expected: str, newline: str) -> None:
    source = SOURCE.replace("\n", newline).encode()
    assert accept(apply_edits(source, edits)).decode() == expected.replace("\n", newline)


def test_a_file_without_edits_is_itself() -> None:
    assert accept(SOURCE.encode()) == SOURCE.encode()


def test_a_mark_inside_a_string_is_part_of_its_meaning() -> None:
    with pytest.raises(ProofFailed, match="the patch would not mean what was measured"):
        accept(f'text = """\nlast {MARKER}\n"""\n'.encode())
