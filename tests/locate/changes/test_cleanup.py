"""What the early stop runs of the code behind the loop: what only cleans up, and nothing else."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import HEAD, rewritten

IMPORTS = (
    "import torch.distributed as dist\nimport ttnn\nimport wandb\nfrom ttnn import close_device\n"
)


def stopped(ahead: str, behind: str, *, call: str = "", around: str = "{loop}") -> list[str]:
    """What stands between the test for the stop and the leaving of a loop in a function."""
    loop = (
        "for x, y in loader:\n    loss = criterion(model(x), y)\n    loss.backward()\n"
        "    optimizer.step()\n"
    )
    if "{loop}" in around:
        loop = around.format(loop=textwrap.indent(loop, "    ") if around != "{loop}" else loop)
    body = textwrap.indent(f"{ahead}\n{loop}{behind}", "    ")
    code = f"{HEAD}{IMPORTS}\ndef main(run=None):\n{body}\n\n{call or 'main()'}\n"
    lines = [
        line.partition("  # [instrument]")[0] for line in rewritten(code).code.decode().splitlines()
    ]
    at = next(n for n, line in enumerate(lines) if "_instrument.finished()" in line)
    end = next(n for n, line in enumerate(lines) if n > at and line.strip() in LEAVING)
    return [line.strip() for line in lines[at + 1 : end]]


LEAVING = ("return", "raise SystemExit(0)")


@pytest.mark.parametrize(
    ("ahead", "behind", "runs"),
    [
        (
            "device = ttnn.open_device(device_id=0)",
            "ttnn.close_device(device)",
            ["ttnn.close_device(device)"],
        ),
        ("d = ttnn.open_device(0)", "print('done')\nclose_device(d)", ["close_device(d)"]),
        (
            "dist.init_process_group()",
            "dist.destroy_process_group()",
            ["dist.destroy_process_group()"],
        ),
        (
            "",
            "if dist.is_initialized():\n    dist.destroy_process_group()\nrun.finish()",
            ["if dist.is_initialized():", "dist.destroy_process_group()", "run.finish()"],
        ),
        ("", "evaluate(model)\nwandb.finish()\nreturn 1", ["wandb.finish()"]),
    ],
)
def test_what_only_cleans_up_runs_at_the_stop(ahead: str, behind: str, runs: list[str]) -> None:
    assert stopped(ahead, behind) == runs


@pytest.mark.parametrize(
    ("ahead", "behind"),
    [
        ("", "torch.save(model.state_dict(), 'm.pt')"),
        ("", "report = open('report')\nreport.close()"),  # made behind the loop
        ("writer = open('log')", "writer = open('other')\nwriter.close()"),  # another by then
        ("", "x.close()"),  # made in the loop
        ("writer = open('log')", "writer.close(model)"),
        ("", "if evaluate(model):\n    wandb.finish()"),
        ("", "if run:\n    evaluate(model)\n    run.finish()"),
        ("", "def later():\n    wandb.finish()"),
    ],
)
def test_all_else_behind_the_loop_is_left(ahead: str, behind: str) -> None:
    assert stopped(ahead, behind) == []


def test_a_finally_runs_by_itself() -> None:
    around = "try:\n{loop}finally:\n    ttnn.close_device(device)\n"
    assert stopped("device = ttnn.open_device(0)", "print('done')", around=around) == []


def test_what_follows_a_block_around_the_loop_is_behind_it() -> None:
    around = "with torch.enable_grad():\n{loop}"
    found = stopped("device = ttnn.open_device(0)", "ttnn.close_device(device)", around=around)
    assert found == ["ttnn.close_device(device)"]
