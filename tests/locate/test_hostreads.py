"""Host reads inside the region: moved behind the barrier in order, or left and named."""

from __future__ import annotations

import pytest

from tests.locate.cases import looped, plan_of, rewritten
from tests.warned import texts

#: name: (body ahead of the sync, lines that move, lines that are named in warnings)
READS: dict[str, tuple[str, list[int], list[int]]] = {
    "item": (
        "loss = criterion(model(x), y)\ntotal += loss.item()\nloss.backward()",
        [10],
        [],
    ),
    "behind_the_backward": (
        "loss = criterion(model(x), y)\nloss.backward()\nprint(loss.item())",
        [11],
        [],
    ),
    "printed_tensor": (
        "loss = criterion(model(x), y)\nprint('loss', loss)\nloss.backward()",
        [10],
        [],
    ),
    "formatted_tensor": (
        "loss = criterion(model(x), y)\nlogger.info(f'{loss:.4f}')\nloss.backward()",
        [10],
        [],
    ),
    "float": ("loss = criterion(model(x), y)\nvalue = float(loss)\nloss.backward()", [10], []),
    "cpu": (
        "output = model(x)\nlosses.append(output.detach().cpu())\n"
        "loss = criterion(output, y)\nloss.backward()",
        [10],
        [],
    ),
    "to_cpu": (
        "output = model(x)\nkeep = output.to('cpu')\nloss = criterion(output, y)\nloss.backward()",
        [10],
        [],
    ),
    "numpy": (
        "output = model(x)\nrows.extend(output.detach().numpy())\n"
        "loss = criterion(output, y)\nloss.backward()",
        [10],
        [],
    ),
    "guarded_print": (
        "loss = criterion(model(x), y)\nif i % 10 == 0:\n    print(loss.item())\nloss.backward()",
        [10],
        [],
    ),
    "chain": (
        "output = model(x)\nloss = criterion(output, y)\ncorrect = (output > 0).sum().item()\n"
        "accuracy = correct / len(y)\nrunning += accuracy\nloss.backward()",
        [11],
        [],
    ),
    "no_grad_block": (
        "output = model(x)\nwith torch.no_grad():\n    kl = output.mean()\n"
        "    kls.append(kl.item())\n"
        "loss = criterion(output, y)\nloss.backward()",
        [12],
        [],
    ),
    "sums_of_tensors_are_no_reads": (
        "loss = criterion(model(x), y)\nrunning += loss.detach()\nloss.backward()",
        [],
        [],
    ),
    "shapes_are_no_reads": (
        "output = model(x)\nprint(output.shape, output.dtype)\n"
        "loss = criterion(output, y)\nloss.backward()",
        [],
        [],
    ),
    "it_decides": (
        "loss = criterion(model(x), y)\nif torch.isnan(loss):\n    continue\nloss.backward()",
        [],
        [10],
    ),
    "it_feeds_the_loss": (
        "output = model(x)\nscale = output.max().item()\n"
        "loss = criterion(output, y) * scale\nloss.backward()",
        [],
        [10],
    ),
    "it_feeds_the_loss_by_another_name": (
        "output = model(x)\nscale = output.max().item()\nhalf = scale / 2\n"
        "loss = criterion(output, y) * half\nloss.backward()",
        [],
        [10],
    ),
    "the_counter_is_in_between": (
        "loss = criterion(model(x), y)\nlog(loss.item(), step)\nloss.backward()\nstep += 1",
        [],
        [10],
    ),
}


@pytest.mark.parametrize("name", READS)
def test_read(name: str) -> None:
    body, moved, named = READS[name]
    source = looped(body + "\ntorch_xla.sync()\noptimizer.step()")
    plan = plan_of(source)
    assert plan["deferred_host_reads"] == moved
    warned = [int(w.split(":")[1]) for w in texts(plan["warnings"]) if "read inside" in w]
    assert warned == named


def test_order_is_kept() -> None:
    source = looped(
        """\
        loss = criterion(model(x), y)
        first = loss.item()
        log("first", first)
        loss.backward()
        second = loss.item()
        log("second", second)
        torch_xla.sync()
        optimizer.step()
        """
    )
    result = rewritten(source)
    assert result.plan.explanation["deferred_host_reads"] == [10, 13]
    lines = [line.strip() for line in result.code.decode().splitlines()]
    end = next(n for n, line in enumerate(lines) if "_instrument.end(" in line)
    assert [line.removesuffix("  # [instrument]") for line in lines[end + 1 : end + 5]] == [
        "first = loss.item()",
        'log("first", first)',
        "second = loss.item()",
        'log("second", second)',
    ]


@pytest.mark.parametrize("on_xla", [True, False])
def test_reads_stay_on_request_and_the_figures_say_which_program_they_are_of(on_xla: bool) -> None:
    body = "loss = criterion(model(x), y)\nprint(loss.item())\nloss.backward()\nlog(loss.item())"
    sync = "torch_xla.sync()" if on_xla else "torch.cuda.synchronize()"
    source = looped(f"{body}\n{sync}\noptimizer.step()")
    if not on_xla:
        source = source.replace("import torch_xla\nimport torch_xla.core.xla_model as xm\n", "")
    first = 10 if on_xla else 8
    reads, weight = [first, first + 2], "caution" if on_xla else "note"
    moved = plan_of(source)
    assert moved["deferred_host_reads"] == reads
    (said,) = [w for w in moved["warnings"] if w["kind"] == "host-reads-moved"]
    assert (said["weight"], said["place"]) == (weight, f"train.py:{first}")
    assert f"(also at {first + 2}) runs after the timed region: on XLA" in said["message"]
    left = plan_of(source, host_reads="as-written")
    assert left["deferred_host_reads"] == []
    (said,) = [w for w in left["warnings"] if w["kind"] == "host-reads-as-written"]
    assert (said["weight"], said["place"]) == (weight, f"train.py:{first}")
    lines = rewritten(source, host_reads="as-written").code.decode().splitlines()
    reading = [n for n, line in enumerate(lines) if "loss.item()" in line]
    assert max(reading) < next(n for n, line in enumerate(lines) if "_instrument.end(" in line)


def test_without_a_read_nothing_is_said_of_reads() -> None:
    source = looped("loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()")
    assert not any(w["kind"].startswith("host-reads") for w in plan_of(source)["warnings"])


def test_where_the_script_does_not_sync_reads_behind_the_backward_stay() -> None:
    source = looped(
        "loss = criterion(model(x), y)\nloss.backward()\nprint(loss.item())\noptimizer.step()"
    )
    plan = plan_of(source)
    assert plan["region"]["end_line"] == 10
    assert plan["deferred_host_reads"] == []


def test_a_read_in_a_helper_is_named() -> None:
    source = looped(
        "loss = criterion(model(x), y)\nfinish(loss)\noptimizer.step()",
        before="""\
        def finish(loss):
            print(loss.item())
            loss.backward()
        """,
    )
    (line,) = [w for w in texts(plan_of(source)["warnings"]) if "host read" in w]
    assert line.startswith("train.py:9:") and "finish()" in line


@pytest.mark.parametrize(
    ("leaves", "told"), [("print(loss.item())\n    continue", False), ("print(loss.item())", True)]
)
def test_a_read_on_the_way_out_of_the_iteration_is_in_no_sample(leaves: str, told: bool) -> None:
    body = (
        f"loss = criterion(model(x), y)\nif skip:\n    {leaves}\nloss.backward()\noptimizer.step()"
    )
    warnings = rewritten(looped(body)).plan.warnings
    assert any("host read" in text for text in texts(warnings)) is told
