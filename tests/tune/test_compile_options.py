"""Compile options: merged into the script's own call whatever its argument is, else inserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune import compile_options
from instrumentor.tune.edits import Applicable, survey
from instrumentor.tune.settings import SETTINGS, setting
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TRAIN, accepted, target_of

CALL = "    torch_xla.set_custom_compile_options(options)\n"
OWN = '    options = {"optimization_level": 0}\n' + CALL
ALL = {"optimization_level": 2, "enable_trace": True}


def with_options(tmp_path: Path, own: str, options: dict[str, int | str | bool]) -> str:
    """The script's text once options were applied to its own ones."""
    return merged(tmp_path, TRAIN.replace(OWN, own), options)


def merged(tmp_path: Path, script: str, options: dict[str, int | str | bool]) -> str:
    """The text of a script once options were applied to it."""
    target = target_of(tmp_path, script)
    changes = Changes(options=options)
    compile_options.apply(target, changes)
    return accepted(target, changes)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ('{"optimization_level": 1}', '{"optimization_level": 2, "enable_trace": "true"}'),
        ('{"optimization_level": "1"}', '{"optimization_level": "2", "enable_trace": "true"}'),
        (
            '{"enable_trace": False, "x": 1}',
            '{"enable_trace": True, "x": 1, "optimization_level": 2}',
        ),
        ("{}", '{"optimization_level": 2, "enable_trace": "true"}'),
        (
            '{"optimization_level": 1, **more}',
            '{"optimization_level": 1, **more, "optimization_level": 2, "enable_trace": "true"}',
        ),
        ("options", '{**options, "optimization_level": 2, "enable_trace": "true"}'),
        ("dict(a=1)", '{**dict(a=1), "optimization_level": 2, "enable_trace": "true"}'),
        ("a | b", '{**(a | b), "optimization_level": 2, "enable_trace": "true"}'),
        ("self.options", '{**self.options, "optimization_level": 2, "enable_trace": "true"}'),
    ],
)
def test_merged_into_the_scripts_own_call(tmp_path: Path, own: str, expected: str) -> None:
    text = with_options(tmp_path, CALL.replace("options)", f"{own})", 1), ALL)
    assert f"    torch_xla.set_custom_compile_options({expected})\n" in text
    assert text.count("set_custom_compile_options") == 1


def test_a_dictionary_over_several_lines_keeps_its_form_and_comments(tmp_path: Path) -> None:
    own = (
        "    torch_xla.set_custom_compile_options(\n        {\n            # The level.\n"
        '            "optimization_level": 1,  # so far\n        }\n    )  # done\n'
    )
    assert (
        "    torch_xla.set_custom_compile_options(\n        {\n            # The level.\n"
        '            "optimization_level": 2,\n            "enable_trace": "true",  # so far\n'
        "        }\n    )  # done\n"
    ) in with_options(tmp_path, own, ALL)


def test_every_call_gets_them_because_a_later_one_replaces_an_earlier_one(tmp_path: Path) -> None:
    text = with_options(tmp_path, CALL.replace("options)", "{})", 1) + CALL, {"a": 1})
    assert text.count('"a": 1') == 2


def test_a_dictionary_built_in_steps_means_what_it_meant(tmp_path: Path) -> None:
    own = '    options = {}\n    options["optimization_level"] = 0\n' + CALL
    text = with_options(tmp_path, own, {"optimization_level": 2})
    seen: list[dict[str, object]] = []
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if "options = {}" in line)
    code = "\n".join(line[4:] for line in lines[start : start + 3])

    class Fake:
        set_custom_compile_options = staticmethod(seen.append)

    exec(code, {"torch_xla": Fake})
    assert seen == [{"optimization_level": 2}]


def test_own_values_are_seen_through_names(tmp_path: Path) -> None:
    found = compile_options.own_option(target_of(tmp_path, TRAIN), "optimization_level")
    assert found is not None
    assert (found[1], found[2]) == (9, 0)
    built = TRAIN.replace(OWN, '    o = {}\n    o["optimization_level"] = "1"\n' + CALL.replace(
        "options)", "o)", 1))  # fmt: skip
    found = compile_options.own_option(target_of(tmp_path, built), "optimization_level")
    assert found is not None and found[2] == 1


def test_inserted_behind_the_device_that_is_opened(tmp_path: Path) -> None:
    text = with_options(tmp_path, "", {"optimization_level": 2})
    assert (
        "    device = xm.xla_device()\n"
        '    torch_xla.set_custom_compile_options({"optimization_level": 2})\n'
        "    model = torch.Linear()\n"
    ) in text


def test_inserted_before_the_model_goes_to_a_device_from_elsewhere(tmp_path: Path) -> None:
    script = TRAIN.replace(OWN, "").replace("device = xm.xla_device()", "device = open_device()")
    script = script.replace("import torch_xla\n", "", 1)
    assert (
        "    model = torch.Linear()\n    import torch_xla\n"
        '    torch_xla.set_custom_compile_options({"optimization_level": 1})\n'
        "    model = model.to(device)\n"
    ) in merged(tmp_path, script, {"optimization_level": 1})


def test_torch_xla_that_may_be_missing_is_asked_for(tmp_path: Path) -> None:
    guarded = "try:\n    import torch_xla\nexcept ImportError:\n    torch_xla = None\n"
    script = TRAIN.replace(OWN, "").replace("import torch_xla\n", guarded, 1)
    text = merged(tmp_path, script, {"optimization_level": 1})
    assert "    if torch_xla is not None:\n        torch_xla.set_custom" in text


def test_without_torch_xla_nothing_would_read_them(tmp_path: Path) -> None:
    plain = TRAIN.replace(OWN, "").replace("import torch_xla\n", "", 1)
    plain = plain.replace("import torch_xla.core.xla_model as xm\n", "")
    plain = plain.replace("xm.xla_device()", '"cpu"')
    with pytest.raises(NotApplicable, match="no module of the script imports torch_xla"):
        merged(tmp_path, plain, ALL)


@pytest.mark.parametrize("given", ["**options", "*options", ""])
def test_a_call_of_another_form_is_refused_with_its_line(tmp_path: Path, given: str) -> None:
    script = TRAIN.replace("options(options)", f"options({given})")
    with pytest.raises(NotApplicable, match="is not called with one dictionary") as refused:
        merged(tmp_path, script, ALL)
    assert refused.value.line == 10


def test_a_call_in_the_head_of_a_block_is_refused(tmp_path: Path) -> None:
    own = "    if torch_xla.set_custom_compile_options({}):\n        pass\n"
    with pytest.raises(NotApplicable, match="header of a block"):
        with_options(tmp_path, own, ALL)


#: Runs through tt-crank.
CRANK = '''\
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
TWO: dict[str, int | str | bool] = {"optimization_level": 2, "fp32_dest_acc_en": False}
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
            f'torch.compile(model, backend="tt", options={{CompileOption.OPT_LEVEL: 1, {PAIRS}}})',
        ),
    ],
)
def test_over_whatever_options_a_call_has(tmp_path: Path, call: str, expected: str) -> None:
    text = merged(tmp_path, CRANK.replace("CALL", call), TWO)
    assert f"    model = {expected}\n" in text


def test_members_of_enumerations_are_imported_where_they_are_used(tmp_path: Path) -> None:
    script = CRANK.replace("CALL", 'torch.compile(model, backend="tt")')
    options: dict[str, int | str | bool] = {
        "math_fidelity": "HiFi2",
        "experimental_weight_dtype": "bfp_bf8",
    }
    assert (
        "    from tt_crank.torch._compile import BfpDtype, MathFidelity\n"
        '    model = torch.compile(model, backend="tt", options={"math_fidelity": '
        'MathFidelity.HiFi2, "experimental_weight_dtype": BfpDtype.BfpBf8})\n'
    ) in merged(tmp_path, script, options)


@pytest.mark.parametrize(
    "call", ["torch.compile(model)", 'torch.compile(model, backend="inductor")', "model.to('tt')"]
)
def test_other_compilers_are_left_alone(tmp_path: Path, call: str) -> None:
    with pytest.raises(NotApplicable, match=r"torch\.compile"):
        merged(tmp_path, CRANK.replace("CALL", call), TWO)


def test_what_a_call_has_itself_is_known(tmp_path: Path) -> None:
    call = (
        'torch.compile(model, backend="tt", options={CompileOption.OPT_LEVEL: 1, '
        'CompileOption.MATH_FIDELITY: MathFidelity.HiFi4, "enable_trace": flag})'
    )
    found = survey(target_of(tmp_path, CRANK.replace("CALL", call)), SETTINGS)
    own = {name: at.own for name, at in found.items() if isinstance(at, Applicable)}
    assert own["optimization_level"] == 1
    assert own["math_fidelity"] == "HiFi4"
    assert own["trace"] is None
    assert own["weight_dtype"] is None
    reasons = {name: one.reason for name, one in found.items() if isinstance(one, NotApplicable)}
    assert reasons["bfp8"] == "an option of tt-xla, which the script does not use"
    assert reasons["compile_optimizer"] == "the run's YAML has no compile_optimizer"
    assert "gradient_accumulation_steps" in reasons["accumulation"]


@pytest.mark.parametrize("device", ["tt", "unknown", ""])
def test_settings_of_tt_crank_act_there_and_not_elsewhere(device: str) -> None:
    names = ("optimization_level", "trace", "weight_dtype", "math_fidelity", "const_eval")
    assert all(setting(name).acts_on(device) for name in names)
    assert not any(setting(name).acts_on("cpu") for name in names)
    assert not setting("bfp8").acts_on("tt") and not setting("math_fidelity").acts_on("xla")
