"""Evaluations and saves that are left out, with what only depends on them, and what stays."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from instrumentor import Options
from instrumentor.locate import locate_file
from instrumentor.rewrite.prepare import prepare
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.caveats import read_caveats
from tests.locate.cases import HEAD, lines_of, looped, plan_of, rewritten
from tests.warned import texts

STEP = "loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()\n"
VALIDATE = """\
def validate(model):
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            total = model(x).sum()
    return total
"""


def with_initial(text: str, rest: str = "") -> str:
    """A script with statements ahead of the loop (from line 14) and behind the step."""
    return looped(STEP + rest, before=VALIDATE + text)


def code_lines(source: str, **options: object) -> list[str]:
    code = rewritten(source, **options).code
    return [line.strip() for line in code.decode().splitlines()]


def stays(source: str) -> list[str]:
    """Why evaluations and saves of a source stay."""
    return [w.partition(": ")[2] for w in texts(plan_of(source)["warnings"]) if " is kept" in w]


#: text ahead of the loop, text behind the step, lines skipped, lines of dependents
INITIAL: dict[str, tuple[str, str, int, list[str]]] = {
    "bare": ("validate(model)", "", 14, []),
    "bound_and_logged": (
        "v = validate(model)\nlogger.info(f'{v:.3f}')",
        "",
        14,
        ["logger.info(f'{v:.3f}')"],
    ),
    "under_an_if": ("if ready:\n    v = validate(model)\n    print(v)", "", 15, ["print(v)"]),
    "with_eval_switch": ("model.eval()\nvalidate(model)", "", 15, []),
    "earlier_binding": ("v = {}\nv = validate(model)", "print(v)", 15, ["print(v)"]),
    "read_later": ("v = validate(model)", "print(f'{v:.3f}')", 14, ["print(f'{v:.3f}')"]),
    "unpacked": ("v, a = validate(model)", "print(v, a)", 14, ["print(v, a)"]),
    "one_of_two": ("v, a = validate(model)", "print(a)", 14, ["print(a)"]),
    "chain": (
        "v = validate(model)\nscore = 1 - v\nbest = min(score, 3)\nprint(best)",
        "",
        14,
        ["score = 1 - v", "best = min(score, 3)", "print(best)"],
    ),
    "bound_anew": ("v = validate(model)\nv = 3\nprint(v)", "", 14, []),
    "collected": ("scores = []\nscores.append(validate(model))", "", 15, []),
    "attribute": ("self.v = validate(model)\nprint(self.v)", "", 14, ["print(self.v)"]),
}


@pytest.mark.parametrize("name", INITIAL)
def test_what_ends_in_itself_is_left_out(name: str) -> None:
    before, rest, line, dependents = INITIAL[name]
    source = with_initial(before, rest)
    assert plan_of(source)["skipped_validation"] == [line]
    lines = code_lines(source)
    assert not any("validate(" in x for x in lines if not x.startswith(("#", "def ")))
    for text in dependents:
        assert f"# [instrument] off| {text}" in lines
    assert not any("nan" in x for x in lines)


TURNS = """\
def fit(rate):
    score = validate(model)
    optimizer.lr = rate
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    {}
    return score
rate = 1
for turn in range(9):
    model.train()
    rate = fit(rate)
"""


@pytest.mark.parametrize(
    ("behind", "skipped"),
    [("score = validate(model)", ["score = validate(model)\n    opt"]), ("pass", [])],
)
def test_what_stays_reads_what_it_computes_itself(behind: str, skipped: list[str]) -> None:
    """The value that stays is of the second one; it would be of the first if that went too."""
    source = HEAD + VALIDATE + TURNS.format(behind)
    lines = [source[: source.index(text)].count("\n") + 1 for text in skipped]
    assert plan_of(source)["skipped_validation"] == lines
    assert any("score" in why for why in stays(source))


#: text ahead of the loop, text behind the step, the reason
KEPT: dict[str, tuple[str, str, str]] = {
    "decides_in_the_step": (
        "v = validate(model)",
        "if loss < v:\n    print('better')",
        "v is used",
    ),
    "shown_with_the_loss": ("v = validate(model)", "print(loss, v)", "beside values of"),
    "schedules": ("v = validate(model)", "scheduler.step(v)", "v is used"),
    "leaves_the_loop": ("v = validate(model)", "if v < 1:\n    break", "v decides"),
    "configures": ("v = validate(model)\nrate = v * 2", "optimizer.lr = rate", "is used"),
    "seen_by_a_handler": (
        "try:\n    v = validate(model)\n    v = 3\nexcept ValueError:\n    launch(v)",
        "",
        "v is used",
    ),
    "seen_by_what_ends_in_any_case": (
        "try:\n    v = validate(model)\n    v = 3\nfinally:\n    launch(v)",
        "",
        "v is used",
    ),
    "kept_by_continue": (
        "for turn in range(3):\n    v = validate(model)\n    if ready:\n        continue\n"
        "    v = 3\nlaunch(v)",
        "",
        "v is used",
    ),
    "unreadable": ("launch(validate(model))", "", "what it does cannot be read"),
    "own_attribute": ("self.v = validate(model)", "loss_scale(self.v)", "is used"),
    "of_a_library": ("trainer.evaluate()", "", "not in the program's own files"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_something_else_needs_stays(name: str) -> None:
    before, rest, why = KEPT[name]
    source = with_initial(before, rest)
    assert plan_of(source)["skipped_validation"] == []
    (reason,) = stays(source)
    assert reason.startswith("Validation is kept and runs once before the first sample")
    assert why in reason
    assert "off|" not in "\n".join(code_lines(source))


@pytest.mark.parametrize(
    "text",
    [
        "model.train()",
        "config.validate()",
        "parser.validate(args)",
        "loader = get_validation_loader()",
        "value = eval('1 + 1')",
        "evaluation_steps = 10",
        "dataset = load_test_dataset()",
        "test_loader = Loader(shapes.test())",
        "model.eval()\nwith torch.no_grad():\n    dataset.cache_latents(model)",
        "with torch.no_grad():\n    for p, q in zip(a.parameters(), b.parameters()):\n"
        "        p.copy_(q)",
        "from collections import OrderedDict\n@torch.no_grad()\ndef follow(a, b):\n"
        "    old = OrderedDict(a.named_parameters())\n    for n, p in b.named_parameters():\n"
        "        old[n].mul_(0.9).add_(p.data)\n    a(n)\nfollow(average, model)\naverage(1)",
        "@torch.no_grad()\ndef show(m):\n    print(m)\nshow(model)",
    ],
)
def test_set_up_is_no_validation(text: str) -> None:
    source = with_initial(text)
    assert plan_of(source)["skipped_validation"] == []
    assert not any("off|" in line for line in code_lines(source))


def test_a_model_built_by_the_evaluation_is_not_taken_away() -> None:
    build = "def get_eval_model():\n    model.eval()\n    return model\n"
    source = with_initial(build + "eval_model = get_eval_model()", "scale(eval_model(x))")
    assert plan_of(source)["skipped_validation"] == []


def test_activation_checkpointing_saves_nothing() -> None:
    body = "h = x\nfor layer in layers:\n    h = checkpoint(layer, h)\nloss = h.sum()\n"
    source = looped(
        body + "loss.backward()\noptimizer.step()",
        before="from torch.utils.checkpoint import checkpoint",
    )
    plan = plan_of(source)
    assert plan["skipped_checkpoints"] == []
    assert not any("off|" in line for line in code_lines(source))


#: what the evaluation does with the model's mode, what stands in its place
MODES: dict[str, tuple[str, str]] = {
    "leaves_it_in_training": ("m.eval()\n    {0}\n    m.train()", "model.train()"),
    "leaves_it_in_evaluation": ("m.eval()\n    {0}", "model.eval()"),
    "gives_it_back": ("was = m.training\n    m.eval()\n    {0}\n    m.train(was)", ""),
    "gives_it_back_if_there": (
        "was = m.training\n    m.eval()\n    {0}\n    if was:\n        m.train()",
        "",
    ),
    "asks_the_model_first": ("if m.training:\n        m.train()\n    {0}", ""),
    "untouched": ("{0}", ""),
}


@pytest.mark.parametrize("name", MODES)
def test_the_mode_is_left_as_it_would_have_been(name: str) -> None:
    body, instead = MODES[name]
    loop = "with torch.no_grad():\n        for x, y in val_loader:\n            m(x)"
    function = f"def validate(m):\n    {body.format(loop)}\n"
    source = looped(STEP, before=function + "validate(model)")
    lines = code_lines(source)
    assert "# [instrument] off| validate(model)" in lines
    if instead:
        assert f"{instead}  # [instrument]" in lines
    else:
        assert not {"model.train()  # [instrument]", "model.eval()  # [instrument]"} & set(lines)


GRADIENTS = """\
def epoch(m, batches, train=True):
    torch.set_grad_enabled({})
    for x, y in batches:
        loss = criterion(m(x), y)
        if train:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
epoch(model, val_loader, train=False)
epoch(model, loader)
"""


@pytest.mark.parametrize(
    ("told", "left"),
    [("train", "False"), ("not train", "True"), ("flag", "")],
)
def test_gradients_are_left_as_they_would_have_been(told: str, left: str) -> None:
    """Where the call does not tell which, it stays."""
    source = HEAD + GRADIENTS.format(told)
    (line,) = lines_of(source, "train=False)")
    plan = plan_of(source)
    assert plan["skipped_validation"] == ([line] if left else [])
    switched = f"torch.set_grad_enabled({left})  # [instrument]"
    assert (switched in code_lines(source)) is bool(left)


LOADED = "val_loader = torch.utils.data.DataLoader(data)\n" + VALIDATE


@pytest.mark.parametrize(
    ("walked", "replaced", "noted"),
    [
        ("val_loader", "val_loader", False),
        ("enumerate(val_loader)", "val_loader", False),
        ("torch.utils.data.DataLoader(data)", "", True),
        ("torch.randn(3, 2)", "", True),
        ("iter(val_loader)", "val_loader", False),
        ("[next(iter(val_loader))]", "val_loader", False),
        ("[next(val_loader.__iter__())]", "val_loader", False),
        ("enumerate(iter(val_loader))", "val_loader", False),
    ],
)
def test_seeds_of_a_loader_are_taken_in_place_of_the_evaluation(
    walked: str, replaced: str, noted: bool
) -> None:
    setup = LOADED.replace("in val_loader", f"in {walked}") + "validate(model)"
    source = looped(STEP, before=setup)
    lines = code_lines(source)
    assert (f"_instrument.drawn({replaced})  # [instrument]" in lines) is bool(replaced)
    notes = [w for w in plan_of(source)["warnings"] if w["kind"] == "random-numbers"]
    assert bool(notes) is noted


RENAMED = """\
from tqdm import tqdm
val_loader = torch.utils.data.DataLoader(data)
other_loader = torch.utils.data.DataLoader(data)
loaders = [val_loader, other_loader]
def validate(model, loader=None, verbose=False):
    model.eval()
    with torch.no_grad():
        {}
        for x in {}:
            print(model(x))
    model.train()
validate(model, {})
"""
OR_BAR = "if verbose:\n            loader = tqdm(loader)"
OR_BEGUN = (
    "if verbose:\n            batches = loader\n        else:\n            batches = iter(loader)"
)


@pytest.mark.parametrize(
    ("rebound", "walked", "given", "replaced", "noted"),
    [
        (OR_BAR, "loader", "val_loader", "val_loader", False),
        (OR_BAR, "loader", "val_loader, unknown", "val_loader", False),
        (OR_BAR.replace("tqdm", "list"), "loader", "val_loader", "val_loader", False),
        (OR_BAR.replace("tqdm", "list"), "loader", "val_loader, unknown", "", True),
        (OR_BAR, "enumerate(loader)", "val_loader, unknown", "val_loader", False),
        (OR_BAR.replace("tqdm(loader)", "other_loader"), "loader", "val_loader, n", "", True),
        (OR_BEGUN, "batches", "val_loader, True", "val_loader", False),
        (OR_BEGUN, "batches", "val_loader", "val_loader", False),
        (OR_BEGUN, "batches", "val_loader, unknown", "val_loader", False),
        ("if loader is None:\n            loader = val_loader", "loader", "", "val_loader", False),
        ("loader = loader or val_loader", "loader", "", "val_loader", False),
        ("loader = loader or val_loader", "loader", "other_loader", "", True),
        ("batches = loader or tqdm(loader)", "batches", "val_loader", "val_loader", False),
        ("pass", "tqdm(loader) if verbose else loader", "val_loader", "val_loader", False),
        ("batches = tqdm(loader)", "batches", "val_loader", "val_loader", False),
        ("batches = list(loader)", "batches", "val_loader", "val_loader", False),
        ("batches = enumerate(tqdm(loader))", "batches", "val_loader", "val_loader", False),
        ("batches = loader", "zip(batches, [1])", "val_loader", "val_loader", False),
        ("pass", "zip([1], loader)", "val_loader", "val_loader", False),
        ("batches = [1, 2]", "batches", "val_loader", "", False),
        (OR_BAR, "loader", "loaders[0]", "loaders[0]", False),
    ],
)
def test_seeds_of_a_loader_under_another_name_are_taken_or_told_of(
    rebound: str, walked: str, given: str, replaced: str, noted: bool
) -> None:
    """Where all that may be walked over is one loader, which can be named, they are taken."""
    source = looped(STEP, before=RENAMED.format(rebound, walked, given))
    plan = plan_of(source)
    assert plan["skipped_validation"]
    assert (f"_instrument.drawn({replaced})  # [instrument]" in code_lines(source)) is bool(
        replaced
    )
    assert ("random-numbers" in [w["kind"] for w in plan["warnings"]]) is noted


OR_PLAIN = " if few else loader"
WRAPPED = """\
from itertools import islice
from tqdm import tqdm
class Few:
    def __init__(self, held):
        self.held = held
    def __iter__(self):
        return islice(iter(self.held), 3)
loader = torch.utils.data.DataLoader(data)
val_loader = {}
def validate(model, batches):
    model.eval()
    with torch.no_grad():
        for x in tqdm(batches, desc="validation"):
            print(model(x))
    model.train()
validate(model, val_loader)
"""


@pytest.mark.parametrize("surely", [False, True])
def test_what_a_loader_may_be_wrapped_in_is_not_asked_for_what_it_holds(*, surely: bool) -> None:
    """The run tells what draws its seeds where it may be a loader itself; else it is told ahead."""
    source = looped(STEP, before=WRAPPED.format(f"Few(loader){'' if surely else OR_PLAIN}"))
    plan = plan_of(source)
    assert plan["skipped_validation"]
    taken = any("_instrument.drawn(val_loader)" in line for line in code_lines(source))
    assert "val_loader.held" not in "\n".join(code_lines(source))
    assert taken is not surely
    assert ("random-numbers" in [w["kind"] for w in plan["warnings"]]) is surely


def test_seeds_of_a_loader_that_only_the_piece_names_are_told_of() -> None:
    piece = """\
val_loader = torch.utils.data.DataLoader(data)
with torch.no_grad():
    model.eval()
    batches = val_loader
    for x in batches:
        print(model(x))
    model.train()
"""
    source = looped(STEP, before=piece)
    assert "drawn(batches" not in "\n".join(code_lines(source))
    (said,) = [w["message"] for w in plan_of(source)["warnings"] if w["kind"] == "random-numbers"]
    assert "the times do not (--keep-validation keeps both)" in said


@pytest.mark.parametrize(
    "walk",
    [
        "for batch in val_loader:\n            x, y = batch",
        "for i, batch in enumerate(val_loader):\n            x, y = batch",
        "for batch in val_loader:\n            batch = tuple(t.cpu() for t in batch)\n"
        "            x, y = batch",
        "for batch in val_loader:\n            (x, y), z = batch\n            x, y = zip(*batch)",
        "for batch in val_loader:\n            x, y = [part for part in batch]",
    ],
)
def test_what_a_loader_gives_is_none_to_be_walked_over(walk: str) -> None:
    setup = f"""\
val_loader = torch.utils.data.DataLoader(data)
def validate(model):
    model.eval()
    with torch.no_grad():
        {walk}
            print(model(x))
    model.train()
validate(model)
"""
    source = looped(STEP, before=setup)
    assert "_instrument.drawn(val_loader)  # [instrument]" in code_lines(source)
    assert "random-numbers" not in [w["kind"] for w in plan_of(source)["warnings"]]


def test_a_loader_that_is_walked_over_now_and_then_is_noted() -> None:
    setup = LOADED.replace("    with torch", "    if quick:\n        return 0\n    with torch")
    source = looped(STEP, before=setup + "validate(model)")
    assert "_instrument.drawn" not in "\n".join(code_lines(source))
    assert "random-numbers" in [w["kind"] for w in plan_of(source)["warnings"]]


@pytest.mark.parametrize(
    ("forward", "noted"),
    [
        ("return self.fc(x)", False),
        ("return self.fc(x) + torch.randn(4)", True),
        ("return self.fc(x) + x.new_empty(4).normal_()", True),
        ("return self.fc(x) + noise(x)", True),
        ("return self.inner(x)", True),
        ("return torch.nn.functional.dropout(self.fc(x), 0.5)", True),
        ("return torch.nn.Linear(4, 4)(x)", True),
        ("return torch.nn.LayerNorm(4)(x)", False),
        ("return torch.nn.functional.dropout(self.fc(x), 0.5, self.training)", False),
        ("if self.training:\n            x = x + noise(x)\n        return self.fc(x)", False),
        ("if not self.training:\n            x = x + noise(x)\n        return self.fc(x)", True),
    ],
)
def test_random_numbers_of_a_model_in_evaluation_are_noted(forward: str, noted: bool) -> None:
    before = f"""\
def noise(x):
    return torch.rand_like(x)
class Inner(torch.nn.Module):
    def forward(self, x):
        return noise(x)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.inner = torch.nn.Linear(4, 4), Inner()
    def forward(self, x):
        {forward}
model = Model()
{LOADED}validate(model)"""
    plan = plan_of(looped(STEP, before=before))
    assert plan["skipped_validation"]
    assert ("random-numbers" in [w["kind"] for w in plan["warnings"]]) is noted


@pytest.mark.parametrize(("rebound", "goes"), [("model.eval()", True), ("other.eval()", False)])
def test_a_name_that_is_bound_to_what_it_has_is_not_changed(rebound: str, goes: bool) -> None:
    block = f"with torch.no_grad():\n    model = {rebound}\n    print(model(x))\n"
    source = looped(f"{STEP}{block}", before="other = torch.nn.Linear(4, 4)")
    assert bool(plan_of(source)["skipped_validation"]) is goes


@pytest.mark.parametrize("switch", ["if quick:\n        model.train()", "{}\n    model.train()"])
def test_a_mode_that_depends_stays_with_its_evaluation(switch: str) -> None:
    switch = switch.format("if quick:\n        return 0")
    function = VALIDATE.replace("    return", f"    {switch}\n    return")
    source = looped(STEP, before=function + "validate(model)")
    assert plan_of(source)["skipped_validation"] == []
    assert "the mode in which it leaves the model cannot be determined" in stays(source)[0]


def test_switches_of_the_script_itself_stay() -> None:
    lines = code_lines(with_initial("model.eval()\nvalidate(model)\nmodel.train()"))
    assert "model.eval()" in lines
    assert "model.train()" in lines


#: text behind the step (from line 19), lines of validations, lines of checkpoints
IN_LOOP: dict[str, tuple[str, list[int], list[int]]] = {
    "every_n": ("if step % 10 == 0:\n    validate(model)\n    model.train()", [20], []),
    "bound": ("if step % 10 == 0:\n    v = validate(model)\n    print(v)", [20], []),
    "best_checkpoint": (
        "if step % 10 == 0:\n    v = validate(model)\n    if v < best:\n        best = v\n"
        "        torch.save(model, 'm.pt')",
        [20],
        [],
    ),
    "checkpoint": ("if step % 10 == 0:\n    torch.save(model, 'm.pt')", [], [20]),
    "pretrained": ("model.save_pretrained('out')", [], [19]),
    "unknown_manager": ("if manager.due(step):\n    manager.save_checkpoint(model)", [], []),
    "early_stopping": (
        "if step % 10 == 0:\n    v = validate(model)\n    if v > best:\n        break",
        [],
        [],
    ),
    "loaded_again": (
        "torch.save(model.state_dict(), 'm.pt')\nmodel.load_state_dict(torch.load('m.pt'))",
        [],
        [],
    ),
    "best_checkpoint_loaded_again": (
        "v = validate(model)\nif v < best:\n    best = v\n    torch.save(model, 'm.pt')\n"
        "model.load_state_dict(torch.load('m.pt'))",
        [],
        [],
    ),
}


@pytest.mark.parametrize("name", IN_LOOP)
def test_in_loop(name: str) -> None:
    rest, validations, checkpoints = IN_LOOP[name]
    source = looped(STEP + rest, before=VALIDATE + "best = 1e9")
    plan = plan_of(source)
    assert plan["skipped_validation"] == validations
    assert plan["skipped_checkpoints"] == checkpoints
    taken = validations + checkpoints
    assert bool(taken) != bool([w for w in stays(source) if "host read" not in w])


BEST = "v = validate(model)\nif v < best:\n    best = v\n    torch.save(model, 'm.pt')\n"
AGAIN = "model.load_state_dict(torch.load('m.pt'))\n"
ENDS = ["_instrument.ended()  # [instrument]", "raise SystemExit(0)  # [instrument]"]


def test_a_best_checkpoint_that_is_loaded_behind_the_loop_goes_as_nothing_runs_there() -> None:
    source = looped(STEP + BEST, before=VALIDATE + "best = 1e9")
    assert ENDS[0] not in code_lines(source)  # nothing stands behind the loop
    source += AGAIN
    assert plan_of(source)["skipped_validation"] == [19]
    assert code_lines(source)[-3:] == [*ENDS, AGAIN.strip()]
    assert ENDS[0] not in code_lines(looped(STEP) + AGAIN)


@pytest.mark.parametrize("use", ["train()\ntrain()", "call(train)", "[train() for x in range(3)]"])
def test_it_stays_where_code_behind_the_loop_may_run_ahead_of_another_sample(use: str) -> None:
    body = looped(STEP + BEST).removeprefix(HEAD) + AGAIN
    body = "best = 1e9\n" + body
    once, more = (
        HEAD + VALIDATE + "def train():\n" + textwrap.indent(body, "    ") + each + "\n"
        for each in ("train()", use)
    )
    assert plan_of(once)["skipped_validation"]
    assert plan_of(more)["skipped_validation"] == []
    assert all("a file is read back at train.py:24" in said for said in stays(more))
    assert "off|" not in rewritten(more).code.decode()


def test_a_file_that_is_read_while_the_loop_is_left_keeps_what_writes_it() -> None:
    body = looped(STEP + BEST).removeprefix(HEAD)
    body = "try:\n" + textwrap.indent(body, "    ") + "finally:\n    " + AGAIN
    assert plan_of(HEAD + VALIDATE + "best = 1e9\n" + body)["skipped_validation"] == []


#: a script whose statement `back` stands behind the loop, and what precedes it in the copy
ENDINGS = {
    "in_the_module": ("for x, y in loader:\n    STEP\nback()", [ENDS]),
    "behind_the_outer_loop": (
        "for e in range(3):\n    for x, y in loader:\n        STEP\n    pass\nback()",
        [ENDS],
    ),
    "returned": (
        "def main():\n    for x, y in loader:\n        STEP\n    return back()\nmain()",
        [[ENDS[0], "return  # [instrument]"]],
    ),
    "left_by_return_or_at_its_end": (
        "def main():\n    for x, y in loader:\n        STEP\n        if x is None:\n"
        "            return 1\n    back()\n    return 2\ncode = main()\nback()",
        [ENDS, ENDS],
    ),
    "left_by_an_exception": (
        "try:\n    for x, y in loader:\n        STEP\n    back()\nexcept ValueError:\n    pass\n"
        "back()",
        [ENDS, ENDS],
    ),
    "of_the_caller_that_loops": (
        "def epoch():\n    for x, y in loader:\n        STEP\n    print(1)\n"
        "for e in range(3):\n    epoch()\nback()",
        [ENDS],
    ),
    "what_cleans_up": (
        "for x, y in loader:\n    STEP\nback()\nmodel.close()",
        [[ENDS[0], "model.close()  # [instrument]", ENDS[1]]],
    ),
    "nothing_but_what_cleans_up": ("for x, y in loader:\n    STEP\nmodel.close()", []),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_run_ends_behind_the_loops_where_something_is_skipped(name: str) -> None:
    text, ends = ENDINGS[name]
    steps = (STEP + "rows.append(validate(model))").replace("\n", "\n        ")
    head = HEAD + VALIDATE + "rows = []\ndef back():\n    return rows[-1]\n"
    source = head + re.sub(
        r"( *)STEP", lambda m: textwrap.indent(textwrap.dedent("        " + steps), m[1]), text
    )
    assert plan_of(source)["skipped_validation"]
    lines = code_lines(source)
    found = [at for at, line in enumerate(lines) if line == ENDS[0]]
    assert [lines[at : at + len(end)] for at, end in zip(found, ends, strict=True)] == ends


def test_a_value_that_is_returned_to_nobody_decides_nothing() -> None:
    """`return best` of a function that is called for what it does."""
    body = looped(STEP + "v = validate(model)\nbest = max(v, best)").removeprefix(HEAD)
    body = textwrap.indent(f"best = 0\n{body}return best", "    ")
    source = f"{HEAD}{VALIDATE}def main():\n{body}\nmain()\n"
    assert plan_of(source)["skipped_validation"] == [20]
    assert "off| best = max(v, best)" in rewritten(source).code.decode()


def test_code_in_a_case_may_run_again_whatever_stands_around_it() -> None:
    """Below a `case`, what stands around it is not told."""
    loop = "match mode:\n    case 1:\n" + textwrap.indent(
        "for x, y in loader:\n"
        + textwrap.indent(STEP + "rows.append(validate(model))", "    ")
        + "\nscale(rows)",
        "        ",
    )
    source = HEAD + VALIDATE + "rows = []\nfor e in range(3):\n" + textwrap.indent(loop, "    ")
    assert plan_of(source)["skipped_validation"] == []


KEEP = """\
import os
def keep(model):
    os.makedirs('out', exist_ok=True)
    torch.save(model, 'out/m.pt')
"""
MADE = "place = name\nos.makedirs(place, exist_ok=True)"


@pytest.mark.parametrize(
    ("rest", "goes"),
    [
        ("with open('out/log.csv', 'a') as log:\n    log.write('1')", False),
        ("open('out/log.csv').close()", True),
        ("open('out/m.pt', 'rb').close()", False),
        ("log.write('1')", True),
        ("if ready:\n    os.makedirs('out')\n    open('out/log', 'w').close()", True),
        (f"{MADE}\nif ready:\n    open(os.path.join(place, 'log'), 'w').close()", True),
        (f"{MADE}\nif ready:\n    file = place + '/log'\n    open(file, 'w').close()", True),
        (f"{MADE}\nif ready:\n    open(os.path.join(place, 'a/log'), 'w').close()", False),
        (f"{MADE}\nif ready:\n    open(os.path.join('out', 'log'), 'w').close()", False),
        (f"{MADE}\nplace = 'out'\nif ready:\n    open(place + '/log', 'w').close()", False),
        (f"if ready:\n    {MADE[13:]}\nopen(os.path.join(place, 'log'), 'w').close()", False),
    ],
)
def test_a_save_stays_that_makes_the_folder_of_another_file(rest: str, goes: bool) -> None:
    source = looped(f"{STEP}keep(model)\n{rest}", before=KEEP)
    assert bool(plan_of(source)["skipped_checkpoints"]) is goes


def test_kept_on_request() -> None:
    source = with_initial("validate(model)", "if step % 2 == 0:\n    validate(model)")
    plan = plan_of(source, keep_validation=True)
    assert plan["skipped_validation"] == []
    assert "off|" not in rewritten(source, keep_validation=True).code.decode()


def test_kept_on_request_is_marked_and_told_as_what_stays_by_itself() -> None:
    source = with_initial("validate(model)", "if step % 2 == 0:\n    validate(model)")
    code = code_lines(source, keep_validation=True)
    at = code.index("_instrument.kept('validation')  # [instrument]")
    assert code[at + 1 : at + 3] == ["validate(model)", "_instrument.kept()  # [instrument]"]
    assert "_instrument.aside('validation at train.py:14')  # [instrument]" in code
    told = read_caveats(plan_of(source, keep_validation=True)["warnings"])
    told = [each for each in told if "Validation is kept" in each.message]
    assert [each.kind for each in told] == ["validation-stays", "validation-between"]
    assert all("because --keep-validation asks for that" in str(each) for each in told)


def test_what_stays_in_the_script_is_marked_where_the_loop_is_in_another_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "engine.py").write_text(
        "import torch\n"
        "class Engine:\n"
        "    def __init__(self, model, optimizer):\n"
        "        self.model, self.optimizer, self.best = model, optimizer, 1.0\n"
        "    def evaluate(self):\n"
        "        with torch.no_grad():\n"
        "            self.best = max(self.best, self.model(torch.randn(8, 4)).sum().item())\n"
        "    def epoch(self, loader):\n"
        "        for x in loader:\n"
        "            loss = self.model(x).sum() * self.best\n"
        "            loss.backward()\n"
        "            self.optimizer.step()\n"
    )
    (tmp_path / "pyproject.toml").touch()
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "from engine import Engine\n"
        "model = torch.nn.Linear(4, 2)\n"
        "engine = Engine(model, torch.optim.SGD(model.parameters(), lr=0.1))\n"
        "loader = [torch.randn(8, 4)] * 4\n"
        "for epoch in range(9):\n"
        "    engine.epoch(loader)\n"
        "    engine.evaluate()\n"
    )
    code = prepare(script, Options()).replacements[script].decode().splitlines()
    at = code.index("    engine.evaluate()")
    assert code[at - 1].startswith("    _instrument.kept('validation')")
    assert code[at + 1].startswith("    _instrument.kept()")
    assert "from _instrument_recorder import recorder as _instrument" in code


def test_in_the_caller_ahead_of_the_loop() -> None:
    source = (
        HEAD
        + VALIDATE
        + """\

def train():
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

def main():
    before = validate(model)
    print("before", before)
    train()

main()
"""
    )
    plan = plan_of(source)
    assert plan["skipped_validation"] == [22]
    assert "off| print(" in rewritten(source).code.decode()


@pytest.mark.parametrize(("body", "goes"), [("pass", True), ("seen.append(total)", False)])
def test_what_another_module_does_is_looked_at_whatever_it_is_called(
    body: str, goes: bool, tmp_path: Path
) -> None:
    """Though the step itself is all in the script."""
    (tmp_path / "helpers.py").write_text(
        "import torch\nseen = []\ndef figures(net, batches):\n    with torch.no_grad():\n"
        f"        total = sum(net(x).sum() for x, y in batches)\n        {body}\n"
        "    return total\ndef put(state, name):\n    torch.save(state, name)\n"
    )
    script = tmp_path / "train.py"
    step = f"print(figures(model, loader))\nput(model.state_dict(), 'm.pt')\n{STEP}"
    rest = "if len(helpers.seen) > 3:\n    break"
    script.write_text(
        looped(f"{step}{rest}", before="import helpers\nfrom helpers import figures, put")
    )
    found = locate_file(script, Options(), [tmp_path]).skipped
    assert [each.what for each in found] == ["validation", "checkpoint"][not goes :]


def test_an_evaluation_that_ends_the_run_is_none_ahead_of_the_samples() -> None:
    """`--evaluate` alone: who trains does not come to it."""
    source = (
        HEAD
        + VALIDATE
        + """\

def main():
    if args.evaluate:
        worst = validate(model)
        scheduler.step(worst)
        return
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

main()
"""
    )
    assert stays(source) == []
    assert plan_of(source)["skipped_validation"] == []
    (why,) = stays(source.replace("        return\n", ""))
    assert why


def test_what_stays_ahead_of_the_samples_is_timed() -> None:
    lines = code_lines(with_initial("v = validate(model)", "scheduler.step(v)"))
    at = lines.index("v = validate(model)")
    assert lines[at - 1] == "_instrument.aside('validation at train.py:14')  # [instrument]"
    assert lines[at + 1] == "_instrument.aside()  # [instrument]"


def test_a_score_that_the_step_or_another_function_reads_stays() -> None:
    first = f"{VALIDATE}v = validate(model)"
    assert plan_of(looped(STEP.replace("y)", "y) * v"), before=first))["skipped_validation"] == []
    source = (
        HEAD
        + VALIDATE
        + """\

def rate():
    return v * 2

def main():
    global v
    v = validate(model)
    for x, y in loader:
        loss = criterion(model(x), y) * rate()
        loss.backward()
        optimizer.step()

main()
"""
    )
    assert plan_of(source)["skipped_validation"] == []


def test_final_validation_is_not_reached_and_stays() -> None:
    source = looped(STEP, before=VALIDATE) + "print(validate(model))\n"
    plan = plan_of(source)
    assert plan["skipped_validation"] == []
    assert plan["stop"]["strategy"] == "SystemExit"


@pytest.mark.parametrize(
    "name", ["compute_loss", "calculate_loss", "evaluate", "compute_eval_loss"]
)
@pytest.mark.parametrize(
    "forward",
    [
        "loss = {0}(model, x)\nloss.backward()",
        "loss, parts = {0}(model, x)\naccelerator.backward(loss)",
        "first = {0}(model, x)\nsecond = {0}(model, y)\nloss = first + second\nloss.backward()",
        "reward = {0}(model, x)\nloss = criterion(model(x), y) * reward\nloss.backward()",
        "self.loss = self.{0}(x)\nself.loss.backward()",
    ],
)
def test_what_the_loss_is_computed_from_is_never_a_validation(name: str, forward: str) -> None:
    source = looped(forward.format(name) + "\noptimizer.step()", before=f"from lib import {name}")
    plan = plan_of(source)
    assert plan["skipped_validation"] == []
    assert not any("validation" in w for w in texts(plan["warnings"]))


def test_a_first_score_stays_where_later_ones_are_compared_with_it() -> None:
    source = (
        HEAD
        + VALIDATE
        + """\
best = validate(model)
patience = 0
for epoch in range(9):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    score = validate(model)
    if score < best:
        best, patience = score, 0
    else:
        patience += 1
    if patience > 3:
        break
"""
    )
    assert plan_of(source)["skipped_validation"] == []


TRAINER = """\
import torch

class Trainer:
    def __init__(self, model, loader, callbacks):
        self.model, self.loader, self.callbacks = model, loader, callbacks
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.seen = 0

    def _callback(self, name, *values):
        for callback in self.callbacks:
            getattr(callback, name)(self, *values)

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            for batch in self.loader:
                self.model(batch)
        self._callback("on_validation_end", 1.0)
        self.model.train()

    def train(self):
        self.validate()
        for batch in self.loader:
            loss = self.model(batch).sum()
            loss.backward()
            self.optimizer.step()
            self.seen += 1
            print(self.seen, loss.item())
"""
CALLBACKS = """\
class Show:
    def on_validation_end(self, trainer, value):
        {body}
"""
ENTRY = """\
import torch
from trainer import Trainer
from callbacks import Show

Trainer(torch.nn.Linear(2, 2), torch.utils.data.DataLoader([1]), [Show()]).train()
"""


@pytest.mark.parametrize(
    ("body", "left_out"),
    [
        ("print(value)", True),
        ("trainer.best = value", True),
        ("trainer.seen = 0", False),
        ("trainer.optimizer.step()", False),
    ],
)
def test_callbacks_are_followed_through_their_names(
    tmp_path: Path, body: str, left_out: bool
) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "callbacks.py").write_text(CALLBACKS.format(body=body))
    (tmp_path / "train.py").write_text(ENTRY)
    located = locate_file(tmp_path / "train.py", Options(), [tmp_path])
    skipped = [(s.statement.lineno, s.instead) for s in located.skipped]
    assert skipped == ([(22, "self.model.train()")] if left_out else [])


#: text ahead of the loop, text behind the step, what goes on request
ASKED: dict[str, tuple[str, str, bool]] = {
    "what_it_does_cannot_be_read": ("launch(validate(model))", "", True),
    "decides_how_the_script_goes_on": ("v = validate(model)", "if v < 1:\n    break", True),
    "read_elsewhere": ("state.best = validate(model)", "launch(state.best)", True),
    "the_step_reads_it": ("v = validate(model)", "loss = criterion(model(x), y) * v", False),
    "something_that_cannot_go_reads_it": ("v = validate(model)", "while v < 1:\n    v += 1", False),
}


@pytest.mark.parametrize("name", ASKED)
def test_on_request_it_goes_without_a_proof(name: str) -> None:
    before, rest, goes = ASKED[name]
    source = with_initial(before, rest)
    if "criterion" in rest:
        source = looped(f"{rest}\nloss.backward()\noptimizer.step()", before=VALIDATE + before)
    assert plan_of(source)["skipped_validation"] == []
    assert plan_of(source, skip_saving=True)["skipped_validation"] == []
    plan = plan_of(source, skip_validation=True)
    assert bool(plan["skipped_validation"]) is goes
    told = [w for w in texts(plan["warnings"]) if "--skip-validation asks for that, though" in w]
    assert bool(told) is goes


def test_what_the_step_has_by_way_of_an_object_stays_on_request() -> None:
    rollout = VALIDATE.replace("        for x, y in", "        for a, y in").replace(
        "total = model(x).sum()", "memory.append(model(a))"
    )
    source = looped(
        f"validate(model)\nx = scale(memory)\n{STEP}",
        before=f"memory = []\n{rollout.replace('return total', 'return 3')}",
    )
    plan = plan_of(source, skip_validation=True)
    assert plan["skipped_validation"] == []


def test_saving_goes_on_request() -> None:
    again = "torch.save(model.state_dict(), 'm.pt')\nstate = torch.load('m.pt')"
    source = looped(f"{STEP}{again}")
    assert plan_of(source)["skipped_checkpoints"] == []
    plan = plan_of(source, skip_saving=True)
    assert plan["skipped_checkpoints"] == lines_of(source, "torch.save")
    assert any(
        "--skip-saving asks for that, though a file is" in w for w in texts(plan["warnings"])
    )


def test_keeping_and_skipping_exclude_each_other() -> None:
    with pytest.raises(UsageError):
        Options(keep_validation=True, skip_validation=True)


NET = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Sequential(torch.nn.Linear(4, 4), {layer})
    def forward(self, x):
        return {value}
net = Net()
def check(m):
    with torch.no_grad():
        for x, y in val_loader:
            print(m(x))
def checked(m):
    m.eval()
    check(m)
def prepared(m):
    m.eval()
"""
DROPOUT = "torch.nn.Dropout(0.5)"
RUNS = "self.fc(x)"
#: what is made, what the forward gives, how it is evaluated, whether that draws
EVALUATED: dict[str, tuple[str, str, str, bool]] = {
    "dropout": (DROPOUT, RUNS, "check(net)", True),
    "dropout_of_nothing": ("torch.nn.Dropout(0.0)", RUNS, "check(net)", False),
    "rrelu": ("torch.nn.RReLU()", RUNS, "check(net)", True),
    "relu": ("torch.nn.ReLU()", RUNS, "check(net)", False),
    "a_recurrent_net": ("torch.nn.LSTM(4, 4, 2)", RUNS, "check(net)", False),
    "a_recurrent_net_with_dropout": (
        "torch.nn.LSTM(4, 4, 2, dropout=0.1)",
        RUNS,
        "check(net)",
        True,
    ),
    "a_function": (
        "torch.nn.ReLU()",
        "torch.nn.functional.dropout(x, 0.5, self.training)",
        "check(net)",
        True,
    ),
    "switched_ahead": (DROPOUT, RUNS, "net.eval()\ncheck(net)", False),
    "switched_in_a_call_ahead": (DROPOUT, RUNS, "prepared(net)\ncheck(net)", False),
    "switched_inside": (DROPOUT, RUNS, "checked(net)", False),
    "switched_back": (DROPOUT, RUNS, "net.eval()\nnet.train()\ncheck(net)", True),
    "switched_now_and_then": (DROPOUT, RUNS, "if quick:\n    net.eval()\ncheck(net)", True),
    "switched_on_both_ways": (
        DROPOUT,
        RUNS,
        "if quick:\n    net.eval()\nelse:\n    net.train(False)\ncheck(net)",
        False,
    ),
    "switched_in_a_case": (
        DROPOUT,
        RUNS,
        "match on:\n    case 1:\n        net.eval()\ncheck(net)",
        True,
    ),
    "switched_in_one_branch": (DROPOUT, RUNS, "if on:\n    net.eval()\n    check(net)", False),
    "another_one_switched": (DROPOUT, RUNS, "model.eval()\ncheck(net)", True),
}


@pytest.mark.parametrize("name", EVALUATED)
def test_random_numbers_of_a_model_in_training_mode_are_noted(name: str) -> None:
    layer, value, text, noted = EVALUATED[name]
    before = LOADED + NET.format(layer=layer, value=value) + text
    plan = plan_of(looped(STEP.replace("model(x)", "net(x)"), before=before))
    assert plan["skipped_validation"]
    assert ("random-numbers" in [w["kind"] for w in plan["warnings"]]) is noted


@pytest.mark.parametrize(
    ("layer", "text", "goes"),
    [
        ("torch.nn.BatchNorm1d(4)", "check(net)", False),
        ("torch.nn.BatchNorm1d(4, track_running_stats=False)", "check(net)", True),
        ("torch.nn.BatchNorm1d(4, 1e-5, 0.1, True, False)", "check(net)", True),
        ("torch.nn.SyncBatchNorm(4)", "check(net)", False),
        ("torch.nn.InstanceNorm1d(4)", "check(net)", True),
        ("torch.nn.InstanceNorm1d(4, track_running_stats=False)", "check(net)", True),
        ("torch.nn.InstanceNorm1d(4, track_running_stats=True)", "check(net)", False),
        ("torch.nn.InstanceNorm1d(4, track_running_stats=track)", "check(net)", False),
        ("torch.nn.InstanceNorm1d(4, 1e-5, 0.1, True, True)", "check(net)", False),
        ("torch.nn.InstanceNorm1d(4, **options)", "check(net)", False),
        ("torch.nn.InstanceNorm1d(4, track_running_stats=True)", "checked(net)", True),
        ("torch.nn.utils.spectral_norm(torch.nn.Linear(4, 4))", "check(net)", False),
        (
            "torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4))",
            "check(net)",
            False,
        ),
        ("torch.nn.utils.weight_norm(torch.nn.Linear(4, 4))", "check(net)", True),
        ("torchvision.models.resnet18()", "check(net)", False),
        ("torchvision.models.vgg16()", "check(net)", True),
        ("timm.create_model('resnet18')", "check(net)", False),
        ("torch.nn.LayerNorm(4)", "check(net)", True),
        ("parts[json.load(open('net.json'))['name']]()", "check(net)", False),
        ("parts[json.load(open('net.json'))['name']]()", "checked(net)", True),
        ("torch.nn.BatchNorm1d(4)", "net.eval()\ncheck(net)", True),
        ("torch.nn.BatchNorm1d(4)", "checked(net)", True),
    ],
)
def test_an_evaluation_that_changes_running_statistics_stays(
    layer: str, text: str, goes: bool
) -> None:
    source = looped(
        STEP.replace("model(x)", "net(x)"),
        before="import json\nimport timm\nimport torchvision\n"
        + "parts = {'a': torch.nn.BatchNorm1d, 'b': torch.nn.LayerNorm}\n"
        + LOADED
        + NET.format(layer=layer, value=RUNS)
        + text,
    )
    assert bool(plan_of(source)["skipped_validation"]) is goes
    assert any("running statistics change" in why for why in stays(source)) is not goes


@pytest.mark.parametrize(
    ("norm", "goes"),
    [
        ("torch.nn.BatchNorm1d", False),
        ("torch.nn.InstanceNorm1d", True),
        ("functools.partial(torch.nn.BatchNorm1d, affine=True)", False),
        ("functools.partial(torch.nn.InstanceNorm1d, track_running_stats=True)", False),
        ("functools.partial(torch.nn.InstanceNorm1d, track_running_stats=False)", True),
    ],
)
def test_a_layer_whose_class_a_function_chooses_is_known_by_each_class(
    norm: str, goes: bool
) -> None:
    chosen = (
        "import functools\n"
        "def norm_of(kind):\n"
        "    if kind == 'layer':\n"
        "        return torch.nn.LayerNorm\n"
        f"    return {norm}\n"
    )
    net = NET.format(layer="norm(4)", value=RUNS).replace("(self)", "(self, norm)", 1)
    net = net.replace("net = Net()", "chosen = norm_of(kind)\nnet = Net(norm=chosen)")
    source = looped(STEP.replace("model(x)", "net(x)"), before=LOADED + chosen + net + "check(net)")
    assert bool(plan_of(source)["skipped_validation"]) is goes


@pytest.mark.parametrize(
    ("told", "goes"),
    [
        ("use_input_stats=self.training", False),
        ("momentum=0.1", False),
        ("use_input_stats=False", True),
    ],
)
def test_a_function_that_changes_the_statistics_it_is_given_is_no_mere_value(
    told: str, goes: bool
) -> None:
    value = f"torch.nn.functional.instance_norm(x, self.mean, self.var, {told})"
    net = NET.format(layer="torch.nn.ReLU()", value=value)
    source = looped(STEP.replace("model(x)", "net(x)"), before=LOADED + net + "check(net)")
    assert bool(plan_of(source)["skipped_validation"]) is goes


@pytest.mark.parametrize(("value", "noted"), [("torch.rand(1)", True), ("torch.ones(1)", False)])
def test_a_save_that_draws_random_numbers_is_called_a_save(value: str, noted: bool) -> None:
    body = "def keep():\n    torch.save({'w': model.state_dict(), 'seed': VALUE}, 'm.pt')\n"
    source = looped(f"{STEP}keep()", before=body.replace("VALUE", value))
    plan = plan_of(source)
    assert plan["skipped_checkpoints"]
    said = texts([w for w in plan["warnings"] if w["kind"] == "random-numbers"])
    assert ["Saving and its random numbers are skipped here" in text for text in said] == [
        True
    ] * noted
    assert "--keep-validation" not in str(said)


PLOTS = "import matplotlib.pyplot as plt"
#: what is made ahead, what the evaluation does with it, what the step reads
UNCHANGED: dict[str, tuple[str, str, str]] = {
    "axes": (PLOTS, "_, ax = plt.subplots(); ax.bar(table)", "table"),
    "a_figure": (PLOTS, "plt.figure().legend(table)", "table"),
    "a_pattern": ("import re\nword = re.compile('a')", "word.match('b')", "word.groups"),
    "a_type": (
        "import numpy as np\nkind = np.dtype('f4')",
        "np.array([0], dtype=kind)[0] = 1",
        "kind.itemsize",
    ),
    "a_text": ("import names\ntext = names.load()", "text.find('a')", "text.parts"),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_cannot_be_changed_keeps_no_evaluation(name: str) -> None:
    ahead, inside, read = UNCHANGED[name]
    evaluation = VALIDATE.replace("    return", f"    {inside}\n    return")
    before = f"table = torch.zeros(3)\n{ahead}\n{evaluation}validate(model)"
    source = looped(STEP.replace("(x), y)", f"(x), y, {read})"), before=before)
    assert stays(source) == []
    assert plan_of(source)["skipped_validation"]


@pytest.mark.parametrize(
    ("body", "goes"),
    [
        ("def __init__(self):\n        self.mean = [0]", True),
        ("mean = []\n    def __init__(self):\n        self.mean.append(0)", False),
    ],
)
def test_an_object_that_another_module_makes_is_of_nobody_else(
    body: str, goes: bool, tmp_path: Path
) -> None:
    """Its class is: a list in that is one for all."""
    (tmp_path / "kinds.py").write_text(f"class Scale:\n    {body}\n")
    evaluation = VALIDATE.replace("    return", "    kinds.Scale()\n    return")
    source = looped(
        STEP.replace("(x), y)", "(x), y, scale.mean)"),
        before=f"import kinds\nscale = kinds.Scale()\n{evaluation}validate(model)",
    )
    (tmp_path / "train.py").write_text(source)
    assert bool(locate_file(tmp_path / "train.py", Options(), [tmp_path]).skipped) is goes


@pytest.mark.parametrize(
    ("action", "test", "told"),
    [
        ("store_true", "args.render", False),
        ("store_false", "args.render", True),
        ("store_true", "not args.render", True),
    ],
)
def test_an_evaluation_that_the_options_leave_out_is_not_told(
    action: str, test: str, told: bool
) -> None:
    before = f"""\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--render", action="{action}")
args = parser.parse_args()
{VALIDATE}
if {test}:
    launch(validate(model))"""
    assert bool(stays(looped(STEP, before=before))) is told


@pytest.mark.parametrize(("number", "goes"), [(9, True), (65, False)])
def test_more_saves_than_can_be_held_against_each_other_stay(number: int, *, goes: bool) -> None:
    source = looped(STEP + "".join(f"torch.save(model, 'm{n}.pt')\n" for n in range(number)))
    assert len(plan_of(source)["skipped_checkpoints"]) == (number if goes else 0)
    assert len(stays(source)) == (0 if goes else number)


@pytest.mark.parametrize(("text", "goes"), [("check(net)", False), ("checked(net)", True)])
def test_a_part_of_which_nothing_is_told_may_keep_running_statistics(text: str, goes: bool) -> None:
    built = """\
import json
def built(settings):
    part = settings["part"]
    if part == "own":
        part = torch.nn.LayerNorm(4)
    return part
"""
    net = NET.format(layer="torch.nn.ReLU()", value="self.part(x)")
    own = 'self.part = built(json.load(open("net.json")))\n        self.fc ='
    net = net.replace("self.fc =", own)
    source = looped(STEP.replace("model(x)", "net(x)"), before=built + LOADED + net + text)
    assert bool(plan_of(source)["skipped_validation"]) is goes
    assert any("running statistics change" in why for why in stays(source)) is not goes
