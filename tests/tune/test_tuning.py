"""What a journal keeps of a tuning comes back as it was."""

from __future__ import annotations

import json

from instrumentor.options import Options
from instrumentor.tune.tuning import _values


def test_options_survive_json() -> None:
    options = Options(steps=13, warmup=3, region=("a.py", 1, 9), only=("region",))
    told = json.loads(json.dumps(_values(options, Options.__dataclass_fields__)))
    assert Options(**_values(told, told)) == options
