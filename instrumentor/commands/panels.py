"""How the help of a verb is laid out: its options by question, an example, no variables.

The environment variables of all options stand in docs/options.md.
"""

from __future__ import annotations

from typing import Any

import typer

_MEASURE, _WHERE, _OUTPUT = "What to measure", "Where and how it runs", "Output"
_PANELS = {
    _MEASURE: (
        "module steps warmup scope profiler loop mode region keep_validation batch_dim repeat "
        "untraced only skip step start_signpost end_signpost signpost ignore_signposts id_range "
        "tracing_mode arch flops peak_tflops levers batch_sizes strategy budget loss_tolerance "
        "kernel call validate reference output_file rtol atol production_shape chips baseline run "
        "fail_on_regression batch_size active_experts discover no_discover"
    ),
    _WHERE: (
        "python tt_xla tracy_tools_folder port op_support_count in_place reset yes timeout link "
        "no_link trial_timeout resume executor executor_option jobs run_test session once restore "
        "fix"
    ),
    _OUTPUT: (
        "output label json quiet verbose keep history no_history force dry_run full html markdown "
        "csv summary_file plots perfetto visualizer plot diff ops no_advice no_summary color "
        "min_percentage hide_below no_host_ops raw_op_codes no_merge_devices group_by "
        "print_signposts summary no_stack_by_in0 no_stacked_report stacked_csv classic_colors"
    ),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}

_EXAMPLES = {
    "run": "instrument run --steps 20 train.py --config single_chip.yaml",
    "explain": "instrument explain train.py",
    "apply": "instrument apply train.py -o train.bench.py",
    "report": "instrument report mnist_baseline --html report.html",
    "compare": "instrument compare mnist_baseline mnist_bf16 --fail-on-regression 3",
    "history": "instrument history train.py --baseline main",
    "doctor": "instrument doctor train.py",
    "diagnose": "instrument diagnose run.log",
    "restore": "instrument restore",
    "profile": "instrument profile pytest -svv tests/test_mnist.py",
    "tune": "instrument tune --batch-sizes 64,128,256 train.py",
    "skill": "instrument skill > SKILL.md",
}


class Command(typer.core.TyperCommand):
    """A verb whose options stand in panels, with an example below."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        for option in self.params:
            if isinstance(option, typer.core.TyperOption):
                option.rich_help_panel = _PANEL_OF.get(option.name or "", "Options")
                option.show_envvar = False
        if name in _EXAMPLES and not self.epilog:
            self.epilog = f"Example: {_EXAMPLES[name]}"
