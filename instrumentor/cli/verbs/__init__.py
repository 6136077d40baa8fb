"""One module per verb; each imports what it needs only when it runs.

In: the options and arguments of one verb; out: what it prints.
"""

from __future__ import annotations

# What follows the script is the script's, whether it is run or only looked at.
SCRIPT_LAST = {"allow_interspersed_args": False, "ignore_unknown_options": False}
#: Each verb, in the order of the help: an example, and whose the words after the script are.
VERBS: dict[str, tuple[str, dict[str, bool]]] = {
    "run": ("instrument run --steps 20 train.py --config single_chip.yaml", SCRIPT_LAST),
    "preview": ("instrument --dry-run train.py --config x.yaml", SCRIPT_LAST),
    "explain": ("instrument explain train.py", SCRIPT_LAST),
    "apply": ("instrument apply train.py -o train.bench.py", {}),
    "report": ("instrument report instrument-runs/latest --html report.html", {}),
    "compare": (
        "instrument compare instrument-runs/mnist-1 instrument-runs/mnist-2 --fail-on-regression 3",
        {},
    ),
    "history": ("instrument history train.py --baseline main", {}),
    "doctor": ("instrument doctor train.py", SCRIPT_LAST),
    "diagnose": ("instrument diagnose run.log", {}),
    "restore": ("instrument restore", {}),
    "profile": ("instrument profile pytest -svv tests/test_mnist.py", SCRIPT_LAST),
    "explain-warning": ("instrument explain-warning W205", {}),
    "tune": ("instrument tune --batch-sizes 64,128,256 train.py", SCRIPT_LAST),
    "skill": ("instrument skill > SKILL.md", {}),
    "kernel": ("", {}),  # a group
}
