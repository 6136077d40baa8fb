"""Host reads inside the region: moved behind the barrier in order, or left and named."""

from __future__ import annotations

import re

import pytest

from tests.locate.cases import lines_of, looped, plan_of, rewritten
from tests.warned import texts

#: Bodies ahead of the sync: `# moves` behind what goes behind the barrier, `# stays` behind what
#: is named in a warning.
READS = {
    "what_waits": """
        output = model(x)
        loss = criterion(output, y)
        total += loss.item()  # moves
        print('loss', loss)  # moves
        logger.info(f'{loss:.4f}')  # moves
        value = float(loss)  # moves
        losses.append(output.detach().cpu())  # moves
        keep = output.to('cpu')  # moves
        rows.extend(output.detach().numpy())  # moves
        if i % 10 == 0:  # moves
            print(loss.item())
        loss.backward()
        print(loss.item())  # moves
        """,
    "what_waits_for_nothing": """
        output = model(x)
        print(output.shape, output.dtype)
        loss = criterion(output, y)
        running += loss.detach()
        loss.backward()
        """,
    "numbers_of_python_wait_for_nothing": """
        output = model(x)
        seen += len(x)
        rows, columns = output.shape
        batch = output.size(0)
        began = time.time()
        for part, name in enumerate(names):
            print(part)
        done = seen + batch * rows - part
        share = round(done / columns, 2) if done > 3 else 0.0
        if done % 10 == 0 and rows > 4:
            print(done, share, f'{batch}', f'{time.time() - began:.1f}')
        loss = criterion(output, y)
        whole = int(done)
        loss.backward()
        """,
    "a_number_once_and_a_tensor_later": """
        loss = criterion(model(x), y)
        kept = 0
        print(kept)  # moves
        kept = kept + loss
        total += loss
        most = max(total, 1)
        print(most)  # moves
        loss.backward()
        """,
    "an_element_of_a_tensor_without_dimensions": """
        output = model(x)
        first = criterion(output, y)
        second = penalty(output)
        loss = first + 0.1 * second
        total += loss.data[0]  # moves
        parts = second.data[0]  # moves
        row = output.data[0]
        loss.backward()
        print(parts)
        """,
    "numpy_is_given_tensors": """
        loss = criterion(model(x), y)
        history.append(loss.data)
        numbers.append(loss.item())  # moves
        print(np.mean(numbers))
        smooth = np.mean(history)  # moves
        loss.backward()
        """,
    "what_depends_on_it_moves_along": """
        output = model(x)
        with torch.no_grad():
            kl = output.mean()
            kls.append(kl.item())  # moves
        loss = criterion(output, y)
        correct = (output > 0).sum().item()  # moves
        accuracy = correct / len(y)
        running += accuracy
        loss.backward()
        """,
    "what_a_tracker_is_given": """
        output = model(x)
        loss = criterion(output, y)
        if i % 10 == 0:  # moves
            for name, part in split(output).items():
                writer.add_image(name, part, i)
        writer.add_scalar('scale', model.scale.data, i)  # moves
        writer.add_scalar('slope', model.scale.grad, i)
        writer.add_scalar('share', i / 10, i)
        writer.add_text('size', str(x.shape), i)
        loss.backward()
        """,
    "a_tracker_in_a_block_that_computes_the_loss": """
        total, log_parts = 0, []
        for name, part in criteria(model(x)).items():
            writer.add_scalar(name + '_count', len(x), i)
            writer.add_scalar(name, part, i)  # stays
            log_parts.append(part)
            total = total + part
        total.backward()
        """,
    "it_decides": """
        loss = criterion(model(x), y)
        if torch.isnan(loss):  # stays
            continue
        loss.backward()
        """,
    "it_feeds_the_loss": """
        output = model(x)
        scale = output.max().item()  # stays
        half = scale / 2
        loss = criterion(output, y) * half
        loss.backward()
        """,
    "the_counter_is_in_between": """
        loss = criterion(model(x), y)
        log(loss.item(), step)  # stays
        loss.backward()
        step += 1
        """,
    "the_way_out_of_the_iteration_is_in_no_sample": """
        loss = criterion(model(x), y)
        if skip:
            print(loss.item())
            continue
        loss.backward()
        """,
}


@pytest.mark.parametrize("name", READS)
def test_read(name: str) -> None:
    before = "import time\nimport numpy as np\nseen = 0"
    source = looped(READS[name], before) + "    torch_xla.sync()\n    optimizer.step()\n"
    lines = source.splitlines()
    moves, stays = (
        [n for n, line in enumerate(lines, 1) if line.endswith(mark)]
        for mark in ("# moves", "# stays")
    )
    plan = plan_of(source)
    assert plan["deferred_host_reads"] == moves
    warned = [
        int(w.split(":")[1]) for w in texts(plan["warnings"]) if "inside the timed region" in w
    ]
    assert warned == stays


def test_weights_are_shown_ahead_of_the_step_that_changes_them() -> None:
    body = """
        loss = criterion(model(x), y)
        writer.add_scalar('scale', model.scale.data, i)
        loss.backward()
        optimizer.step()
        """
    source = looped(body)
    shown = lines_of(source, "writer.add_scalar(")
    assert plan_of(source)["deferred_host_reads"] == shown
    whole = plan_of(source, scope="step")
    assert whole["deferred_host_reads"] == []
    assert any(f"train.py:{shown[0]}" in text for text in texts(whole["warnings"]))


def test_a_read_in_a_block_that_computes_the_loss_feeds_nothing() -> None:
    block = "if warm:\n    loss = loss * factor\n    print(loss)\n"
    source = looped(f"loss = criterion(model(x), y)\n{block}loss.backward()\noptimizer.step()")
    [told] = [w for w in texts(plan_of(source)["warnings"]) if "inside the timed region" in w]
    assert "it stands in a block that computes the loss" in told


def test_order_is_kept() -> None:
    reads = ["first = loss.item()", 'log("first", first)']
    again = [line.replace("first", "second") for line in reads]
    body = ["loss = criterion(model(x), y)", *reads, "loss.backward()", *again]
    result = rewritten(looped("\n".join([*body, "torch_xla.sync()", "optimizer.step()"])))
    assert result.plan.explanation["deferred_host_reads"] == [10, 13]
    _, _, behind = result.code.decode().partition("_instrument.end(")
    moved = re.findall(r"^ +(.*?)  # \[instrument\]$", behind, re.MULTILINE)
    assert moved[:4] == [*reads, *again]


@pytest.mark.parametrize("on_xla", [True, False])
def test_reads_stay_on_request_and_the_figures_say_which_program_they_are_of(on_xla: bool) -> None:
    body = "loss = criterion(model(x), y)\nprint(loss.item())\nloss.backward()\nlog(loss.item())"
    sync = "torch_xla.sync()" if on_xla else "torch.cuda.synchronize()"
    source = looped(f"{body}\n{sync}\noptimizer.step()")
    if not on_xla:
        source = source.replace("import torch_xla\nimport torch_xla.core.xla_model as xm\n", "")
    first = 10 if on_xla else 8
    reads = [first, first + 2]
    for way, kept in (("moved", reads), ("as-written", [])):
        plan = plan_of(source, host_reads=way)
        assert plan["deferred_host_reads"] == kept
        told = [w for w in plan["warnings"] if w["kind"] == f"host-reads-{way}"]
        if not on_xla:  # a read costs the same wherever it stands
            assert told == []
            continue
        (said,) = told
        assert (said["weight"], said["place"]) == ("caution", f"train.py:{first}")
        assert f"(and at {first + 2})" in said["message"] and "forward" in said["message"]
    ahead, _, _ = rewritten(source, host_reads="as-written").code.partition(b"_instrument.end(")
    assert ahead.count(b"loss.item()") == 2


def test_where_the_script_does_not_sync_reads_behind_the_backward_stay() -> None:
    source = looped(
        "loss = criterion(model(x), y)\nloss.backward()\nprint(loss.item())\noptimizer.step()"
    )
    plan = plan_of(source)
    assert plan["region"]["end_line"] == 10
    assert plan["deferred_host_reads"] == []
    assert not any(w["kind"].startswith("host-reads") for w in plan["warnings"])


def test_a_read_in_a_helper_is_named() -> None:
    source = looped(
        "loss = criterion(model(x), y)\nfinish(loss)\noptimizer.step()",
        before="def finish(loss):\n    print(loss.item())\n    loss.backward()",
    )
    (line,) = [w for w in texts(plan_of(source)["warnings"]) if "host read" in w]
    assert line.startswith("train.py:9:") and "finish()" in line


def test_what_runs_between_the_micro_steps_of_one_sample_is_named() -> None:
    body = "loss = criterion(model(x), y)\nloss.backward()\nif (i + 1) % 4 == 0:\n"
    source = looped(f"{body}    optimizer.step()\n    torch_xla.sync()\nprint(loss.item())")
    (said,) = [w for w in texts(plan_of(source)["warnings"]) if "between the micro-steps" in w]
    assert said.startswith("train.py:14:")
