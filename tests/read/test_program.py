"""The loop in another function or another module than the entry script's."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest

from instrumentor import Options, explain, plan
from instrumentor.read.program import Program
from instrumentor.read.syntax import SOURCE_BYTES, Source, parse
from instrumentor.read.values import Class, Object
from instrumentor.rewrite.prepare import prepare
from tests.locate.cases import timed

LOOP = """\
    def train(self):
        for x, y in self.loader:
            loss = self._forward(x, y)
            self._backward(loss)
            self.optimizer.step()
"""
TRAINER = f"""\
import torch

class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def _forward(self, x, y):
        return (self.model(x) - y).pow(2).mean()

    def _backward(self, loss):
        loss.backward()

{LOOP}"""
ENTRY = """\
from {module} import Trainer

Trainer(make_model(), make_loader()).train()
"""


def project(folder: Path, files: dict[str, str]) -> Path:
    """A project with the given files; returns the folder."""
    for name, text in {**files, "pyproject.toml": ""}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def document(folder: Path, script: str = "train.py", **options: Any) -> dict[str, Any]:
    answer = explain(folder / script, Options(**options))
    assert answer.eligible, answer.reasons
    return answer.to_json()


#: the entry; modules beside library/trainer.py
IMPORTS: dict[str, tuple[str, dict[str, str]]] = {
    "module": (ENTRY.format(module="library.trainer"), {}),
    "re_export": (
        ENTRY.format(module="library"),
        {"library/__init__.py": "from library.trainer import Trainer\n"},
    ),
    "relative_re_export": (
        ENTRY.format(module="library"),
        {"library/__init__.py": "from .trainer import *\n"},
    ),
    "renamed": (
        "from library.trainer import Trainer as Runner\n\n"
        "def main():\n    runner = Runner(1, 2)\n    runner.train()\n\nmain()\n",
        {},
    ),
    "module_import": ("import library.trainer\n\nlibrary.trainer.Trainer(1, 2).train()\n", {}),
    "src_layout": (ENTRY.format(module="inner.trainer"), {}),
    "in_a_function": (
        "def main():\n    from library.trainer import Trainer\n\n"
        "    Trainer(1, 2).train()\n\nmain()\n",
        {},
    ),
    "by_a_computed_module": (
        "import importlib\n\n"
        "def find(name):\n    module = 'library.' + name + 'er'\n"
        "    found = importlib.import_module(module)\n"
        "    for key, value in found.__dict__.items():\n"
        "        if key.lower() == name:\n            made = value\n    return made\n\n"
        "find(options.name)(1, 2).train()\n",
        {"library/helper.py": "class Helper:\n    pass\n"},
    ),
    "by_a_formatted_module": (
        "from importlib import import_module\n\n"
        "import_module(f'library.{options.name}').Trainer(1, 2).train()\n",
        {},
    ),
    "of_a_package_that_imports_its_modules": (
        "import library as lib\n\nlib.trainer.Trainer(1, 2).train()\n",
        {"library/__init__.py": "from library import helper\nfrom . import trainer\n"},
    ),
    "of_a_module_of_its_name": (
        "from library import trainer\n\ntrainer(1, 2).train()\n",
        {"library/__init__.py": "from .trainer import Trainer as trainer\n"},
    ),
    "by_a_written_name": (
        "from library import trainer\n\ngetattr(trainer, 'Trainer')(1, 2).train()\n",
        {},
    ),
    "beside_one_that_is_not_imported": (
        ENTRY.format(module="library.trainer") + "import library.losses\n",
        {
            "library/losses.py": TRAINER.replace("Trainer", "Demo")
            + "\nif __name__ == '__main__':\n    for x in data:\n        loss = model(x).mean()\n"
            "        loss.backward()\n        optimizer.step()\n"
        },
    ),
    "optional": (
        "try:\n    from library.trainer import Trainer\nexcept ImportError:\n"
        "    Trainer = None\nTrainer(1, 2).train()\n",
        {},
    ),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_imports_are_followed(name: str, tmp_path: Path) -> None:
    entry, others = IMPORTS[name]
    home = "src/inner/trainer.py" if name == "src_layout" else "library/trainer.py"
    folder = project(tmp_path, {"train.py": entry, home: TRAINER, **others})
    plan = document(folder)
    trainer = folder / home
    assert plan["loop"]["file"] == str(trainer)
    assert plan["loop"]["line"] == 15
    assert plan["forward"]["file"] == plan["backward"]["file"] == str(trainer)
    prepared = prepare(folder / "train.py", Options())
    assert list(prepared.replacements) == [trainer]


@pytest.mark.parametrize("spelled", ["{}/lib", "lib", "/nowhere:lib"])
def test_a_package_on_the_user_s_pythonpath_is_followed(
    spelled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"train.py": ENTRY.format(module="library.trainer"), "lib/library/trainer.py": TRAINER}
    folder = project(tmp_path, files)
    assert not explain(folder / "train.py").eligible
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", spelled.format(tmp_path))
    assert document(folder)["loop"]["file"] == str(folder / "lib/library/trainer.py")


def test_outside_of_the_project_pythonpath_is_read_and_never_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = "import torch\n\nmodel = torch.nn.Linear(4, 4)\n\ndef run(x):\n    return model(x)\n"
    loop = "for x in loader:\n    run(x).mean().backward()\n    optimizer.step()\n"
    entry = f"from helpers import run\n\n{loop}"
    files = {"train.py": entry, "other.py": ENTRY.format(module="library.trainer")}
    folder = project(tmp_path / "project", files)
    project(tmp_path / "outside", {"helpers.py": helper, "library/trainer.py": TRAINER})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "outside"))
    assert document(folder)["evidence"][0]["name"] == "torch.nn.Linear"
    assert list(prepare(folder / "train.py", Options()).replacements) == [folder / "train.py"]
    assert not explain(folder / "other.py").eligible  # its loop would have to be edited there


def test_the_subclass_that_is_built_decides(tmp_path: Path) -> None:
    """`_backward` is abstract in the base; the override reachable from the entry counts."""
    base = TRAINER.replace("        loss.backward()\n", "        raise NotImplementedError\n")
    lora = (
        "import torch_xla\nfrom library.base import Trainer\n\nclass LoraTrainer(Trainer):\n"
        "    def _backward(self, loss):\n        loss.backward()\n        torch_xla.sync()\n"
    )
    entry = "from library.lora import LoraTrainer\n\nLoraTrainer(1, 2).train()\n"
    files = {"train.py": entry, "library/base.py": base, "library/lora.py": lora}
    plan = document(project(tmp_path, files))
    assert plan["loop"]["file"].endswith("base.py")
    assert plan["sync"] == {"action": "keep", "line": 7, "api": "torch_xla.sync"}


def test_without_an_override_there_is_no_loop(tmp_path: Path) -> None:
    base = TRAINER.replace("        loss.backward()\n", "        raise NotImplementedError\n")
    folder = project(tmp_path, {"train.py": ENTRY.format(module="library"), "library.py": base})
    answer = explain(folder / "train.py")
    assert not answer.eligible
    assert answer.reasons[0].kind == "no-loop"


def test_installed_packages_are_not_followed(tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        {
            "train.py": ENTRY.format(module="installed.trainer"),
            ".venv/lib/python3.11/site-packages/installed/trainer.py": TRAINER,
        },
    )
    assert not explain(folder / "train.py").eligible


def test_validation_of_the_base_class_ahead_of_the_loop(tmp_path: Path) -> None:
    trainer = TRAINER.replace(
        "    def train(self):\n",
        """\
    def validate(self):
        with torch.no_grad():
            return sum(self._forward(x, y).item() for x, y in self.val_loader)

    def train(self):
        if self.val_loader is not None:
            self.validate()
""",
    )
    folder = project(tmp_path, {"train.py": ENTRY.format(module="library"), "library.py": trainer})
    assert document(folder)["skipped_validation"] == [20]


def test_a_loop_in_the_entry_goes_before_the_library(tmp_path: Path) -> None:
    loop = "for x in loader:\n    model(x).mean().backward()\n    optimizer.step()\n"
    files = {
        "train.py": f"import torch\nfrom library import Trainer\n{loop}",
        "library.py": TRAINER,
    }
    folder = project(tmp_path, files)
    assert document(folder)["loop"]["file"] == str(folder / "train.py")


def test_circles_of_imports_end_and_broken_neighbours_are_left_out(tmp_path: Path) -> None:
    files = {
        "train.py": "import library.broken\n" + ENTRY.format(module="library.a"),
        "library/a.py": "from library.b import helper\n" + TRAINER,
        "library/b.py": "from library.a import Trainer\nimport library.missing\n",
        "library/broken.py": "def f(:\n",
    }
    assert document(project(tmp_path, files))["loop"]["line"] == 16


STEP = """\
def step({}x, y):
    loss = criterion({}model(x), y)
    {}
    return loss
"""
CALL = "for x, y in loader:\n    loss = {}step(x, y)\n    optimizer.step()\n"
STEPS = STEP.format("", "", "loss.backward()"), CALL.format("")
HELPERS = {
    "function": "".join(STEPS),
    "two_deep": "def backward(loss):\n    loss.backward()\n\n"
    + STEP.format("", "", "backward(loss)")
    + STEPS[1],
    "nested": "def main():\n" + textwrap.indent("".join(STEPS), "    ") + "\nmain()\n",
    "method": "class Experiment:\n"
    + textwrap.indent(STEP.format("self, ", "self.", "loss.backward()"), "    ")
    + "    def run(self):\n"
    + textwrap.indent(CALL.format("self."), "        ")
    + "\nExperiment().run()\n",
}


@pytest.mark.parametrize("name", HELPERS)
def test_the_step_inside_of_a_helper_is_timed(name: str, tmp_path: Path) -> None:
    plan = document(project(tmp_path, {"train.py": HELPERS[name]}))
    lines = HELPERS[name].splitlines()
    call = plan["call"]["line"]
    assert "step(x, y)" in lines[call - 1] and "def " not in lines[call - 1]
    begin = next(n for n, line in enumerate(lines, 1) if "criterion(" in line)
    assert timed(plan) == {"start_line": begin, "end_line": begin + 1}
    assert "backward(" in lines[plan["backward"]["line"] - 1]
    assert "criterion(" in lines[plan["forward"]["line"] - 1]
    assert plan["scope"] == "fwd-bwd"


def test_a_backward_that_nothing_is_seen_to_call_is_named(tmp_path: Path) -> None:
    files = {
        "train.py": "import library.trainer\n\nlibrary.trainer.REGISTRY[name](1, 2).train()\n",
        "library/trainer.py": TRAINER + "\nREGISTRY = discover()\n",
    }
    answer = explain(project(tmp_path, files) / "train.py", Options())
    (reason,) = answer.reasons
    assert reason.kind == "no-loop"
    assert "train(), which holds one at trainer.py:15, is not seen" in reason.message
    assert "instrument run" in reason.remedy


def test_what_a_caller_passes_under_an_imported_alias_is_known(tmp_path: Path) -> None:
    train = (
        "def train(net, opt, data):\n    for x in data:\n        net(x).mean().backward()\n"
        "        opt.step()\n"
    )
    entry = (
        "import torch\nfrom library import train as run\n\nmodel = torch.nn.Linear(4, 4)\n"
        "run(model, torch.optim.SGD(model.parameters()), loader)\n"
    )
    plan = document(project(tmp_path, {"train.py": entry, "library.py": train}))
    names = [found["name"] for found in plan["evidence"]]
    assert names == ["torch.nn.Linear", names[1], "torch.optim.SGD"]


def test_of_two_definitions_of_a_method_the_last_one_counts(tmp_path: Path) -> None:
    abstract = "    def _backward(self, loss):\n        raise NotImplementedError\n\n"
    setter = (
        "    @property\n    def rate(self):\n        return self.optimizer.lr\n\n"
        "    @rate.setter\n    def rate(self, rate):\n        self.optimizer.lr = rate\n\n"
    )
    real = "    def _backward(self, loss):"
    files = {
        "train.py": ENTRY.format(module="library.trainer"),
        "library/trainer.py": TRAINER.replace(real, abstract + setter + real),
    }
    assert document(project(tmp_path, files))["loop"]["line"] == 26


def test_the_timed_lines_are_named_with_their_file(tmp_path: Path) -> None:
    """The loop in the script, the region inside of a function of another file."""
    step = "def step(x):\n    if x.sum() < 0:\n        return\n    model(x).mean().backward()\n"
    files = {
        "train.py": "from steps import step\n\nfor x in loader:\n    step(x)\n",
        "steps.py": f"import torch\n\nmodel = torch.nn.Linear(4, 4)\n{step}    optimizer.step()\n",
    }
    plan = document(project(tmp_path, files))
    assert plan["loop"]["file"] == str(tmp_path / "train.py")
    assert plan["region"]["file"] == str(tmp_path / "steps.py")
    assert timed(plan) == {"start_line": 7, "end_line": 7}


def test_what_follows_after_many_bytes_is_left_out(tmp_path: Path) -> None:
    """A clone of generated files must not keep a preview busy for an hour."""
    names = [f"m{number}" for number in range(5)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("#" * (SOURCE_BYTES // 2))
    (tmp_path / "huge.py").write_text("#" * (SOURCE_BYTES + 1))
    entry = parse(tmp_path / "train.py", f"import huge, {', '.join(names)}".encode())
    assert len(Program.load(entry, (tmp_path,)).sources) == 6
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"import n{name}\n" + "#" * (SOURCE_BYTES - 99))
        (tmp_path / f"n{name}.py").write_text(f"import nn{name}\n" + "#" * (SOURCE_BYTES - 99))
        (tmp_path / f"nn{name}.py").write_text("")
    assert 8 < len(Program.load(entry, (tmp_path,)).sources) < 16


def test_an_imported_file_with_the_backward_that_does_not_parse_is_named(tmp_path: Path) -> None:
    engine = "def train(loader):\n    for x in loader:\n        x.cuda(async=True).backward()\n"
    files = {"train.py": "import torch\nimport engine\nengine.train([])\n", "engine.py": engine}
    folder = project(tmp_path, files)
    reason, missed = explain(folder / "train.py", Options()).reasons
    assert (reason.kind, reason.file.name, reason.line) == ("syntax", "engine.py", 3)
    assert "an imported file does not parse" in reason.message
    assert missed.kind == "no-loop"


_CONFLICT = "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> other\n"


@pytest.mark.parametrize(
    ("files", "place", "missed"),
    [
        (  # the imports of the broken file lead to the loop
            {
                "train.py": "from main import main\nmain()\n",
                "main.py": "from engine import train\ndef main():\n    print 'go'\n    train()\n",
            },
            ("main.py", 3),
            "no-loop",
        ),
        (  # its base class steps
            {
                "train.py": "from base import Base\nclass A(Base):\n    def run(self):\n"
                "        for x in self.loader:\n            loss = self.model(x).sum()\n"
                "            loss.backward()\n            self.update()\nA().run()\n",
                "base.py": _CONFLICT,
            },
            ("base.py", 1),
            "no-optimizer-step",
        ),
        (  # its model runs the forward
            {
                "train.py": "import torch\nimport keep\nfrom net import model, feed\n"
                "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                "for x in range(10):\n    feed(x)\n    keep.it.loss.backward()\n"
                "    optimizer.step()\n",
                "keep.py": "",
                "net.py": "x = (\n",
            },
            ("net.py", 1),
            "forward-unseen",
        ),
    ],
)
def test_a_file_that_does_not_parse_is_named_ahead_of_what_is_missed(
    tmp_path: Path, files: dict[str, str], place: tuple[str, int], missed: str
) -> None:
    reason, other = explain(project(tmp_path, files) / "train.py", Options()).reasons
    assert (reason.kind, reason.file.name, reason.line) == ("syntax", *place)
    assert other.kind == missed


@pytest.mark.parametrize("test", ["if torch.__version__ < '1.0':", "try:"])
def test_a_file_that_may_not_be_imported_is_no_reason(tmp_path: Path, test: str) -> None:
    end = "except SyntaxError:\n    pass\n" if test == "try:" else ""
    script = f"import torch\n{test}\n    import old\n{end}print('no step')\n"
    files = {"train.py": script, "old.py": "print 'old'\n"}
    (reason,) = explain(project(tmp_path, files) / "train.py", Options()).reasons
    assert reason.kind == "no-loop"


def test_a_step_that_is_seen_without_a_file_that_does_not_parse_has_a_warning(
    tmp_path: Path,
) -> None:
    files = {
        "train.py": "import torch\nfrom net import Net\nfrom engine import train\nnet = Net()\n"
        "train(net, torch.optim.SGD(net.parameters(), lr=0.1))\n",
        "net.py": "print 'net'\n",
        "engine.py": "def train(model, optimizer):\n    for x in model.data:\n"
        "        loss = model(x).sum()\n        loss.backward()\n        optimizer.step()\n",
    }
    found = plan(project(tmp_path, files) / "train.py", Options())
    (warning,) = (w for w in found.warnings if w.kind == "unread-import")
    assert warning.place == "net.py:1"
    assert "Missing parentheses" in warning.message


def test_data_of_another_framework_make_no_script_of_it(tmp_path: Path) -> None:
    script = "import torch\nfrom keras.datasets import mnist\nfrom helpers import fit\nfit(mnist)\n"
    files = {"train.py": script, "helpers.py": "import torch\ndef fit(data):\n    pass\n"}
    (reason,) = explain(project(tmp_path, files) / "train.py", Options()).reasons
    assert reason.kind == "no-loop"


@pytest.mark.parametrize(
    "binding",
    [
        "try:\n    from itertools import izip as zip\nexcept ImportError:\n    pass\n",
        "try:\n    import itertools\n    zip = itertools.izip\nexcept AttributeError:\n    pass\n",
        "from six.moves import range, zip\n",
        "import six\nzip = six.moves.zip\n",
    ],
)
def test_an_import_stands_in_for_a_builtin(binding: str) -> None:
    entry = parse(Path("train.py"), f"{binding}zip(x, y)\n".encode())
    assert "builtins.zip" in _meant(entry, entry.calls[-1].func)


def test_a_name_of_the_module_is_no_builtin() -> None:
    text = "for input in loader:\n    pass\nfrom lazy import zip\nzip(input)\n"
    entry = parse(Path("train.py"), text.encode())
    call = entry.calls[-1]
    assert _meant(entry, call.func) == ["lazy.zip"]
    assert "builtins.input" not in _meant(entry, call.args[0])


def _meant(entry: Source, node: ast.expr) -> list[str]:
    """Qualified names that an expression of a module may stand for."""
    values = Program.load(entry, []).of(entry, entry.tree, node)
    return [getattr(value, "name", "") for value in values]


@pytest.mark.parametrize(
    "made",
    [
        "parts = {**{'one': First()}, 'two': Second()}",
        "parts = {**{'one': Second()}, **{'two': Second()}, 'one': First()}",
        "parts = {'one': First()}\nparts = {**parts, 'two': Second()}",
        "parts = {}\nparts.update({'one': First(), 'two': Second()})",
        "parts = dict()\nparts = {}\nparts.update(one=First(), two=Second())",
        "parts = {}\nparts.setdefault('one', First())\nparts['two'] = Second()",
        "parts = {'two': Second()}\nparts.update(more())",
    ],
)
def test_what_a_table_holds_under_a_key(made: str) -> None:
    source = parse(
        Path("train.py"),
        f"def more():\n    return {{'one': First()}}\n{made}\n"
        "class First: pass\nclass Second: pass\nfound = parts['one']\n".encode(),
    )
    found = Program.single(source).named(source, source.tree, "found")
    names = {
        v.made_by.node.name for v in found if isinstance(v, Object) and isinstance(v.made_by, Class)
    }
    assert names == {"First"}


def test_elements_of_a_list_that_another_is_written_into() -> None:
    text = (
        "class One: pass\nclass Two: pass\nmade = [One()]\nfor each in [*made, Two()]:\n    each\n"
    )
    source = parse(Path("train.py"), text.encode())
    found = Program.single(source).named(source, source.tree, "each")
    assert {v.made_by.node.name for v in found} == {"One", "Two"}
