"""What became of a trial survives the journal."""

from __future__ import annotations

import json

from instrumentor.tune.outcome import Outcome


def test_an_outcome_survives_json_with_infinite_losses() -> None:
    made = Outcome("measured", losses=(1.0, float("inf")), samples_ms=(1.0,))
    assert Outcome.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False))) == made
    assert Outcome.from_json({**made.to_json(), "later": 1}) == made
