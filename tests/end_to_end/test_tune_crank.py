"""Tuning through tt-crank: by the experiment's YAML, and by options of `torch.compile`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import STANDINS, RepoFactory, RunCli, git
from tests.end_to_end.small import read

pytest.importorskip("torch", reason="needs torch: make test installs it")

# Skipped as a whole, that module would lack what is wanted of it.
from tests.end_to_end.test_crank import SCRIPTS, shortened

#: As many as let a gain of this size be seen whatever a busy machine adds.
ENOUGH = ("--steps", "16", "--warmup", "2")
#: What the stand-in's graphs take with these options, of what they take without.
TIMES = {
    "enable_trace=True": 0.4,
    "experimental_weight_dtype=BfpBf8": 0.7,
    "experimental_weight_dtype=BfpBf4": 0.3,
}
SCRIPT = """\
import torch
import tt_crank.torch
from torch import nn
from tt_crank.torch._compile import CompileOption

torch.manual_seed(0)
model = nn.Linear(8, 1).to("tt")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def loss_fn(batch):
    return model(batch).sum()


options = {CompileOption.OPT_LEVEL: 1}
compiled = torch.compile(loss_fn, backend="tt", dynamic=False, options=options)
for step in range(50):
    optimizer.zero_grad()
    loss = compiled(torch.ones(4, 8).to("tt"))
    loss.backward()
    optimizer.step()
"""


def environment(repo: Path) -> dict[str, str]:
    """Where the stand-in is, and how long it takes."""
    return {
        "PYTHONPATH": f"{repo}:{STANDINS / 'crank'}",
        "TT_STANDIN_MS": "forward=100,backward=150",
        "TT_STANDIN_TIMES": ",".join(f"{option}:{times}" for option, times in TIMES.items()),
    }


@pytest.mark.slow
def test_settings_of_the_experiments_yaml(own_experiments_repo: Path, run_cli: RunCli) -> None:
    repo = own_experiments_repo
    words = ("tune", *ENOUGH, "--settings", "trace,bfp8", f"{SCRIPTS}/tiny_llama_crank/train.py")
    config = shortened(repo, "tiny_llama_crank")
    git(repo, "add", config)
    done = run_cli(*words, "--config", config, cwd=repo, env=environment(repo))
    assert done.returncode == 0, done.stderr
    document = read(repo / "instrument-runs/tiny_llama_crank_tune-1", "tune.json")
    assert document["best"] == {"trace": True}
    assert 1.7 < document["best_against_baseline"]["times_as_fast"] < 1 / 0.35
    assert "Not applicable to this script: bfp8 (tune.md says why)" in done.stderr
    folder = repo / "instrument-runs/tiny_llama_crank_tune-1"
    assert "tt-xla" in (folder / "tune.md").read_text()
    patch = (folder / "best.diff").read_text()
    assert "-enable_trace: false\n+enable_trace: true\n" in patch


def test_options_of_torch_compile(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": SCRIPT, "pyproject.toml": "", ".gitignore": "*_tune/\n"})
    env = environment(repo)
    done = run_cli("tune", *ENOUGH, "--settings", "weight_dtype", "train.py", cwd=repo, env=env)
    assert done.returncode == 0, done.stderr
    document = read(repo / "instrument-runs/repo_tune-1", "tune.json")
    verdicts = {trial["name"]: trial["verdict"] for trial in document["trials"]}
    assert verdicts["weight_dtype bfp_bf8"] == verdicts["weight_dtype bfp_bf4"] == "kept"
    assert document["best"] == {"weight_dtype": "bfp_bf4"}
    assert 2 < document["best_against_baseline"]["times_as_fast"] < 1 / 0.25
    git(repo, "apply", str(repo / "instrument-runs/repo_tune-1" / "best.diff"))
    text = (repo / "train.py").read_text()
    assert '{**(options or {}), "experimental_weight_dtype": BfpDtype.BfpBf4})' in text
