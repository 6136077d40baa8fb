"""Options of torch.compile calls for tt-crank: over whatever a call has, or in the YAML."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from instrumentor.options import Options
from instrumentor.tune import call_options
from instrumentor.tune.edits import Applicable, patch, survey
from instrumentor.tune.settings import SETTINGS, setting
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable, read_target
from tests.tune.scripts import changed, configuration, target_of
from tests.waiting import HANG_S

TRAIN = '''\
"""Through tt-crank."""
import torch
import tt_crank.torch
from tt_crank.torch._compile import CompileOption, MathFidelity

TT_BACKEND = "tt"


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {CompileOption.OPT_LEVEL: 1}
    model = CALL
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()


train(torch.nn.Linear(2, 2), [torch.ones(2, 2)] * 20)
'''
TWO = {"optimization_level": 2, "fp32_dest_acc_en": False}
PAIRS = '"optimization_level": 2, "fp32_dest_acc_en": False'


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            'torch.compile(model, backend="tt")',
            f'torch.compile(model, backend="tt", options={{{PAIRS}}})',
        ),
        (
            "torch.compile(model, backend=TT_BACKEND, dynamic=False, options=options)",
            "torch.compile(model, backend=TT_BACKEND, dynamic=False, "
            f"options={{**(options or {{}}), {PAIRS}}})",
        ),
        (
            'torch.compile(model, options=None, backend="tt")',
            f'torch.compile(model, options={{{PAIRS}}}, backend="tt")',
        ),
        (
            'torch.compile(model, backend="tt", options={CompileOption.OPT_LEVEL: 1})',
            'torch.compile(model, backend="tt", options={**{CompileOption.OPT_LEVEL: 1}, '
            f"{PAIRS}}})",
        ),
    ],
)
def test_over_whatever_options_a_call_has(tmp_path: Path, call: str, expected: str) -> None:
    text = changed(tmp_path, TRAIN.replace("CALL", call), call_options.apply, TWO)
    assert f"    model = {expected}\n" in text


def test_members_of_enumerations_are_imported_where_they_are_used(tmp_path: Path) -> None:
    script = TRAIN.replace("CALL", 'torch.compile(model, backend="tt")')
    options = {"math_fidelity": "HiFi2", "experimental_weight_dtype": "bfp_bf8"}
    assert (
        "    from tt_crank.torch._compile import BfpDtype, MathFidelity\n"
        '    model = torch.compile(model, backend="tt", options={"math_fidelity": '
        'MathFidelity.HiFi2, "experimental_weight_dtype": BfpDtype.BfpBf8})\n'
    ) in changed(tmp_path, script, call_options.apply, options)


@pytest.mark.parametrize(
    "call", ["torch.compile(model)", 'torch.compile(model, backend="inductor")', "model.to('tt')"]
)
def test_other_compilers_are_left_alone(tmp_path: Path, call: str) -> None:
    target = target_of(tmp_path, TRAIN.replace("CALL", call))
    with pytest.raises(NotApplicable, match=r"torch\.compile"):
        call_options.apply(target, TWO, Changes())


def test_what_a_call_has_itself_is_known(tmp_path: Path) -> None:
    call = (
        'torch.compile(model, backend="tt", options={CompileOption.OPT_LEVEL: 1, '
        'CompileOption.MATH_FIDELITY: MathFidelity.HiFi4, "enable_trace": flag})'
    )
    found = survey(target_of(tmp_path, TRAIN.replace("CALL", call)), SETTINGS)
    own = {name: at.own for name, at in found.items() if isinstance(at, Applicable)}
    assert own["optimization_level"] == 1
    assert own["math_fidelity"] == "HiFi4"
    assert own["trace"] is None
    assert own["weight_dtype"] is None
    reasons = {name: one.reason for name, one in found.items() if isinstance(one, NotApplicable)}
    assert reasons["bfp8"] == "an option of tt-xla, through which it does not run"
    assert reasons["compile_optimizer"] == "the run's YAML has no compile_optimizer"
    assert "gradient_accumulation_steps" in reasons["accumulation"]


@pytest.mark.parametrize("device", ["tt", "unknown", ""])
def test_settings_of_tt_crank_act_there_and_not_elsewhere(device: str) -> None:
    names = ("optimization_level", "trace", "weight_dtype", "math_fidelity", "const_eval")
    assert all(setting(name).acts_on(device) for name in names)
    assert not any(setting(name).acts_on("cpu") for name in names)
    assert not setting("bfp8").acts_on("tt") and not setting("math_fidelity").acts_on("xla")


def test_a_patched_experiment_compiles_with_the_options(
    own_experiments_repo: Path, torch_python: Path
) -> None:
    """Keys of the YAML are set there, the others in the calls; the stand-in tells what it got."""
    repo = own_experiments_repo
    script = "blacksmith/experiments/torch/tiny_llama/train_crank.py"
    small = {"hidden_size": 16, "num_layers": 1, "max_length": 8, "train_samples": 64}
    default = repo / "blacksmith/experiments/torch/tiny_llama/single_chip/tiny_llama.yaml"
    settings = yaml.safe_load(default.read_text(encoding="utf-8"))
    settings.update(small, val_samples=16, num_epochs=1)
    (repo / "tiny.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    chosen = configuration(
        optimization_level=2, math_fidelity="HiFi2", weight_dtype="bfp_bf4", accumulation=1
    )
    arguments = ("--config", "tiny.yaml")
    target = read_target(repo / script, arguments, repo, Options(steps=13, warmup=3))
    change = patch(target, chosen)
    subprocess.run(["git", "apply", "-"], cwd=repo, input=change, check=True)
    assert "gradient_accumulation_steps: 1\n" in (repo / "tiny.yaml").read_text(encoding="utf-8")

    standin = Path(__file__).resolve().parents[1] / "standins" / "crank"
    log = repo / "commands.jsonl"
    env = {"PYTHONPATH": f"{repo}:{standin}", "TT_STANDIN_LOG": str(log)}
    done = subprocess.run(
        [torch_python, script, *arguments],
        cwd=repo,
        env={**os.environ, **env, "TT_STANDIN_MS": "forward=1,backward=1,inference=1,op=0,copy=0"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    compiled = [
        command["options"]
        for command in map(json.loads, log.read_text(encoding="utf-8").splitlines())
        if command["kind"] == "compile"
    ]
    assert compiled
    for options in compiled:
        assert options["optimization_level"] == "2"
        assert options["math_fidelity"] == "MathFidelity.HiFi2"
        assert options["experimental_weight_dtype"] == "BfpDtype.BfpBf4"
        assert options["fp32_dest_acc_en"] == "True"  # the script's own
