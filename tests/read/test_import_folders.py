"""Folders that a script puts on `sys.path`."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.locate import locate_file
from instrumentor.locate.located import Declined
from instrumentor.read.bindings import Bindings
from instrumentor.read.import_folders import Added, added_by
from instrumentor.read.syntax import parse
from instrumentor.shared.options import Options

IMPORTS = "import os\nimport os.path as osp\nimport sys\nfrom pathlib import Path\n"


def _added(text: str) -> Added:
    source = parse(Path("/repo/scripts/train.py"), (IMPORTS + text).encode())
    return added_by(Bindings(source), [Path("/repo")])


@pytest.mark.parametrize(
    "path",
    [
        'str(Path(__file__).parent.parent / "src")',
        'str(Path(__file__).resolve().parents[1].joinpath("src"))',
        'os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")',
        'osp.join(osp.dirname(__file__), "..", "src")',
        'os.path.dirname(os.path.realpath(__file__)) + "/../src/"',
        'os.path.join(HERE, "../src")',
        'os.fspath(ROOT / "src")',
    ],
)
def test_a_folder_told_from_the_file_is_followed(path: str) -> None:
    names = "HERE = os.path.dirname(__file__)\nROOT = Path(HERE).parent\n"
    assert _added(f"{names}sys.path.insert(0, {path})") == Added((Path("/repo/src"),))


@pytest.mark.parametrize(
    "path",
    [
        '".."',  # from where the script is started, which is not in the repository
        "os.getcwd()",
        'os.environ["ROOT"]',
        'os.path.join(os.path.dirname(__file__), os.environ["PART"])',
        "os.path.dirname(os.path.dirname(os.path.dirname(__file__)))",  # above the repository
        "Path(__file__).parents[9]",
        "twice",
        "circle",
    ],
)
def test_any_other_folder_is_not(path: str) -> None:
    names = "twice = __file__\ntwice = os.getcwd()\ncircle = str(circle)\n"
    assert _added(f"{names}sys.path.append({path})") == Added()


def test_what_is_inserted_goes_first_and_the_last_inserted_before_it() -> None:
    added = _added(
        "here = Path(__file__).parent\nsys.path.insert(0, str(here / 'a'))\n"
        "sys.path.extend([str(here / 'd'), str(here / 'e')])\nif True:\n"
        "    sys.path.insert(1, str(here / 'b'))\nsys.path.append(str(here / 'd'))\n"
    )
    names = [[folder.name for folder in folders] for folders in (added.first, added.last)]
    assert names == [["b", "a"], ["d", "e"]]


@pytest.mark.parametrize(
    ("folder", "start"),
    [
        ('Path(__file__).parent.parent / "lib"', "/"),
        ('Path("lib")', "."),
        ('"../lib"', "scripts"),
        ('Path("lib")', "scripts"),
    ],
)
def test_a_loop_in_such_a_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, start: str
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "lib" / "steps.py").write_text(
        "def train(model, loader, optimizer):\n    for batch in loader:\n"
        "        loss = model(batch).sum()\n        loss.backward()\n        optimizer.step()\n"
    )
    script = tmp_path / "scripts" / "train.py"
    script.write_text(
        f"{IMPORTS}import torch\nsys.path.insert(0, str({folder}))\nfrom steps import train\n\n"
        "model = torch.nn.Linear(2, 2)\n"
        "train(model, [torch.ones(2)], torch.optim.SGD(model.parameters(), lr=0.1))\n"
    )
    roots = [tmp_path, script.parent]
    monkeypatch.chdir(tmp_path / start)
    if (folder, start) != ('Path("lib")', "scripts"):
        located = locate_file(script, Options(), roots)
        assert located.candidate.source.path == tmp_path / "lib" / "steps.py"
    else:
        with pytest.raises(Declined, match="no loop"):
            locate_file(script, Options(), roots)


ADDS = "def add(folder):\n    if folder not in sys.path:\n        sys.path.insert(0, folder)\n"
LOOP = """\
def train(model, loader, optimizer):
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""
TRAIN = """\
import torch
from steps import train

model = torch.nn.Linear(2, 2)
train(model, [torch.ones(2)], torch.optim.SGD(model.parameters(), lr=0.1))
"""
LIB = 'osp.join(osp.dirname(__file__), "..", "lib")'


@pytest.mark.parametrize(
    ("folders", "script"),
    [
        (f"{IMPORTS}{ADDS}here = {LIB}\nadd(here)\n", "import folders\n"),
        (f"{IMPORTS}{ADDS}", f"{IMPORTS}import folders\nfolders.add({LIB})\n"),
        (f"{IMPORTS}{ADDS}", f"{IMPORTS}from folders import add\nadd(folder={LIB})\n"),
        (f"{IMPORTS}sys.path.append({LIB})\n", "import folders\n"),
    ],
)
def test_a_module_of_folders_adds_them_for_the_script(
    tmp_path: Path, folders: str, script: str
) -> None:
    for name, text in (
        ("lib/steps.py", LOOP),
        ("scripts/folders.py", folders),
        ("scripts/train.py", script + TRAIN),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    path = tmp_path / "scripts" / "train.py"
    located = locate_file(path, Options(), [tmp_path, path.parent])
    assert located.candidate.source.path == tmp_path / "lib" / "steps.py"


def test_what_a_function_of_another_module_would_add_is_not() -> None:
    later = parse(
        Path("/repo/scripts/paths.py"),
        f"{IMPORTS}def later():\n    sys.path.append({LIB})\n".encode(),
    )
    assert added_by(Bindings(later), [Path("/repo")], on_import=True) == Added()


def test_a_package_goes_ahead_of_a_module_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    package = tmp_path / "train" / "__init__.py"
    package.write_text(
        "def train(model, loader, optimizer):\n    for batch in loader:\n"
        "        loss = model(batch).sum()\n        loss.backward()\n        optimizer.step()\n"
    )
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom train import train\n\nmodel = torch.nn.Linear(2, 2)\n"
        "train(model, [torch.ones(2)], torch.optim.SGD(model.parameters(), lr=0.1))\n"
    )
    assert locate_file(script, Options(), [tmp_path]).candidate.source.path == package
