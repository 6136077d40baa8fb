"""Which modules a computed name may mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.read.bindings import Bindings
from instrumentor.read.modules import computed_imports, modules_of
from instrumentor.read.syntax import parse


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("'models.cut_model'", ["cut_model"]),
        ("'models.' + name + '_model'", ["cut_model", "gan_model"]),
        ("f'models.{name}_model'", ["cut_model", "gan_model"]),
        ("'models.%s_model' % name", ["cut_model", "gan_model"]),
        ("'models.{}_model'.format(name)", ["cut_model", "gan_model"]),
        ("f'models.{name}'", ["cut_model", "gan_model", "tools"]),
        ("built", ["cut_model", "gan_model"]),
        ("name", []),  # may be any module at all
        ("f'{name}.models'", []),
        ("'.' + name", []),
        ("twice", []),
        ("'json'", []),  # an installed one
    ],
)
def test_a_written_part_of_the_name_tells(name: str, modules: list[str], tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for file in ("cut_model", "gan_model", "tools"):
        (tmp_path / f"models/{file}.py").touch()
    text = (
        "import importlib\n\ndef find(name):\n    built = 'models.' + name + '_model'\n"
        "    twice = 'models.a'\n    twice = name\n"
        f"    return importlib.import_module({name})\n"
    )
    source = parse(tmp_path / "train.py", text.encode())
    (call,) = computed_imports(source)
    found = modules_of(source, Bindings(source), call, [tmp_path / "other", tmp_path])
    assert [path.stem for path in found] == modules
