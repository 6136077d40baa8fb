from __future__ import annotations

from instrumentor_analysis.shared.caveats import (
    Caveat,
    by_weight,
    few,
    read_caveats,
    recorded,
    together,
)

NOTE = Caveat("own-timer", "the script's own timer stays", "note", "train.py:6")
CAUTION = Caveat("scatter", "the median is uncertain", hint="more --steps")
WRONG = Caveat("busy-machine", "the machine was busy", "wrong")


def test_the_heaviest_come_first_each_once_and_notes_on_demand() -> None:
    mixed = (NOTE, CAUTION, WRONG, CAUTION)
    assert by_weight(mixed) == (WRONG, CAUTION, NOTE)
    assert by_weight(mixed, notes=False) == (WRONG, CAUTION)


def test_text_has_place_and_hint() -> None:
    assert str(NOTE) == "train.py:6: the script's own timer stays"
    assert str(CAUTION) == "the median is uncertain (more --steps)"


def test_json_comes_back_as_it_was() -> None:
    assert read_caveats([each.to_json() for each in (NOTE, CAUTION, WRONG)]) == (
        NOTE, CAUTION, WRONG,
    )  # fmt: skip


def test_foreign_documents_are_read_as_far_as_they_go() -> None:
    assert read_caveats("no list") == read_caveats(None) == ()
    assert read_caveats(["as before", {"message": "m", "weight": 3}]) == (
        Caveat("text", "as before"), Caveat("", "m"),
    )  # fmt: skip


def test_a_warning_of_the_recorder_keeps_its_kind() -> None:
    assert recorded({"text": "t"}) == Caveat("recorder", "t")
    assert recorded({"text": "t", "kind": "no-torch-ops"}).kind == "no-torch-ops"


def test_of_many_the_first_are_told_each_once() -> None:
    every = [Caveat("text", str(number)) for number in range(101)]
    assert few(every[:100] * 2) == tuple(every[:100])
    assert [each.message for each in few(every)][99:] == [
        "99",
        "Further warnings of the record are left out: 1.",
    ]


def test_what_is_true_of_several_places_is_said_once() -> None:
    places = ("train.py:14", "train.py:15", "data.py:3", "data.py:3", "")
    copies = [Caveat("copy-inside", "A copy.", place=place) for place in places]
    one = Caveat("copy-inside", "A copy.", place="train.py:14, 15, data.py:3")
    assert together([*copies, NOTE, CAUTION]) == (one, NOTE, CAUTION)
