"""Whole runs of a script on ttnn without Tracy; ttnn is a stand-in, and no time is a device's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RepoFactory, RunCli

STANDIN = Path(__file__).parents[1] / "standins" / "realtime"
SCRIPT = """\
import torch
import ttnn


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ttnn.run(device, "bmm")
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ttnn.run(device, "bmm_backward")
        return gradient


device = ttnn.open_device(device_id=0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [torch.ones(8, 4)] * 400:
    optimizer.zero_grad()
    loss = Product.apply(model(x)).sum()
    loss.backward()
    optimizer.step()
    ttnn.run(device, "optimizer")
ttnn.close_device(device)
"""


Summary = dict[str, Any]


@pytest.fixture
def ran(run_cli: RunCli, git_repo: RepoFactory, torch_python: Path) -> Callable[..., Summary]:
    """The summary of a run of that script, with more in its environment."""

    def run(code: str = SCRIPT, **environment: str) -> Summary:
        made = run_cli(
            *("run", "--json", "--no-history", "--profiler", "wallclock", "--steps", "4"),
            *("--python", torch_python, "-o", "out", "train.py"),
            cwd=git_repo({"train.py": code}),
            env={"PYTHONPATH": str(STANDIN), **environment},
        )
        assert made.returncode == 0, made.stderr
        return json.loads(made.stdout)  # type: ignore[no-any-return]

    return run


def test_programs_of_a_step_are_told(ran: Callable[..., Summary]) -> None:
    summary = ran()
    programs = summary["programs"]
    assert programs["steps"] == 5 and programs["left_out"] == 0
    # Two programs of 2 ms each by the stand-in's own clock, and one behind the region.
    assert programs["device_ms"] == pytest.approx(4.0) and programs["rest_ms"] == pytest.approx(2.0)
    assert {each["name"] for each in programs["kernels"]} == {"bmm", "bmm_backward"}
    assert summary["device_time_ms"] == pytest.approx(4.0)


def test_an_inactive_profiler_is_a_note(ran: Callable[..., Summary]) -> None:
    summary = ran(STANDIN_INACTIVE="1")
    assert summary["programs"] is None
    assert "no-programs" in [each["kind"] for each in summary["warnings"]]


def test_a_script_that_closes_its_device_within_these_steps_ends_well(
    ran: Callable[..., Summary],
) -> None:
    summary = ran(SCRIPT.replace("* 400", "* 7"))
    assert summary["script_exit_code"] == 0
    assert summary["programs"]["steps"] < 5


def test_clock_and_power_are_those_of_the_device_that_the_script_has_open(
    ran: Callable[..., Summary], tmp_path: Path
) -> None:
    for name, clock in (("0", "500"), ("1", "1000")):
        folder = tmp_path / "sys" / f"tenstorrent!{name}"
        (folder / "device" / "hwmon" / "hwmon0").mkdir(parents=True)
        (folder / "tt_aiclk").write_text(clock)
        (folder / "device" / "hwmon" / "hwmon0" / "power1_input").write_text("40000000")
    nodes = tmp_path / "dev"
    nodes.mkdir()
    for name in ("0", "1"):
        (nodes / name).write_text("")
    opening = f'import time\nnode = open("{nodes / "1"}")\nimport torch'
    code = SCRIPT.replace("import torch", opening, 1).replace(
        "    loss.backward()", "    time.sleep(0.3)\n    loss.backward()"
    )
    summary = ran(
        code, INSTRUMENT_SYSFS_ROOT=str(tmp_path / "sys"), INSTRUMENT_DEVICE_ROOT=str(nodes)
    )
    (row,) = summary["telemetry"]["devices"]
    assert (row["device"], row["clock_mhz"], row["power_w"]) == ("1", 1000.0, 40.0)
    assert summary["telemetry"]["step_energy_j"] > 0
