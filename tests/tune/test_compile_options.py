"""Compile options: merged into the script's own call whatever its argument is, else inserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune import compile_options
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable
from tests.tune.scripts import TRAIN, changed, target_of

CALL = "    torch_xla.set_custom_compile_options(options)\n"
OWN = '    options = {"optimization_level": 0}\n' + CALL
ALL = {"optimization_level": 2, "enable_trace": True}


def with_options(tmp_path: Path, own: str, options: dict[str, int | str | bool]) -> str:
    """The script's text once options were applied to its own ones."""
    return changed(tmp_path, TRAIN.replace(OWN, own), compile_options.apply, options)


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
    ) in changed(tmp_path, script, compile_options.apply, {"optimization_level": 1})


def test_torch_xla_that_may_be_missing_is_asked_for(tmp_path: Path) -> None:
    guarded = "try:\n    import torch_xla\nexcept ImportError:\n    torch_xla = None\n"
    script = TRAIN.replace(OWN, "").replace("import torch_xla\n", guarded, 1)
    text = changed(tmp_path, script, compile_options.apply, {"optimization_level": 1})
    assert "    if torch_xla is not None:\n        torch_xla.set_custom" in text


def test_without_torch_xla_nothing_would_read_them(tmp_path: Path) -> None:
    plain = TRAIN.replace(OWN, "").replace("import torch_xla\n", "", 1)
    plain = plain.replace("import torch_xla.core.xla_model as xm\n", "")
    plain = plain.replace("xm.xla_device()", '"cpu"')
    with pytest.raises(NotApplicable, match="no module of the script imports torch_xla"):
        compile_options.apply(target_of(tmp_path, plain), ALL, Changes())


@pytest.mark.parametrize("given", ["**options", "*options", ""])
def test_a_call_of_another_form_is_refused_with_its_line(tmp_path: Path, given: str) -> None:
    target = target_of(tmp_path, TRAIN.replace("options(options)", f"options({given})"))
    with pytest.raises(NotApplicable, match="is not called with one dictionary") as refused:
        compile_options.apply(target, ALL, Changes())
    assert refused.value.line == 10


def test_a_call_in_the_head_of_a_block_is_refused(tmp_path: Path) -> None:
    own = "    if torch_xla.set_custom_compile_options({}):\n        pass\n"
    target = target_of(tmp_path, TRAIN.replace(OWN, own))
    with pytest.raises(NotApplicable, match="header of a block"):
        compile_options.apply(target, ALL, Changes())
