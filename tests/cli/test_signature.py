"""From dataclasses of options to a verb, and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from instrumentor.cli.signature import Only, Verb, Without
from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import MEASURE, OUTPUT, WHERE, Checked, option, same


@dataclass(frozen=True)
class Group:
    steps: int | None = option(MEASURE, None, "How many.")
    sizes: tuple[int, ...] = option(
        MEASURE, (), "Which.", "--all-sizes", "--sizes", convert=lambda text: (int(text),)
    )
    folders: tuple[Path, ...] = option(WHERE, (), "Where.", file=False)
    advice: bool = option(OUTPUT, True, "No advice.", "--no-advice", once=True)
    kept: int = 3


@dataclass(frozen=True)
class Derived(Group):
    name: str = option(OUTPUT, "x", "Name.")
    again: tuple[Path, ...] = same(Group, "folders")


def call(function: Any, *words: str) -> Any:
    app = typer.Typer()
    app.command()(function)
    return app(list(words), standalone_mode=False)


@Verb
def whole(word: str, *, group: Derived) -> tuple[str, Derived]:
    """All of them."""
    return word, group


def test_nothing_typed_is_the_library_s_default() -> None:
    assert call(whole, "w") == ("w", Derived())


def test_what_is_typed_becomes_what_the_field_holds() -> None:
    words = "--steps 5 --sizes 8 --folders a --folders b --no-advice --name y --again c w"
    assert call(whole, *words.split())[1] == Derived(
        steps=5,
        sizes=(8,),
        folders=(Path("a"), Path("b")),
        advice=False,
        name="y",
        again=(Path("c"),),
    )


@pytest.mark.parametrize(
    ("note", "taken"),
    [
        (Only("steps", "advice"), {"steps", "no_advice"}),
        (Without("sizes"), {"steps", "folders", "no_advice"}),
    ],
)
def test_a_verb_takes_some(note: Only, taken: set[str]) -> None:
    def some(*, group: Any) -> Any:
        return group

    some.__annotations__["group"] = Annotated[Group, note]
    made = Verb(some)
    assert set(made.declared) == taken
    assert call(made, "--steps", "7").steps == 7


def test_the_key_of_a_file_is_any_long_flag() -> None:
    options = whole.declared
    assert options["all_sizes"].keys == ("all_sizes", "sizes")
    assert [key for key, each in options.items() if not each.option.file] == [
        "folders",
        "no_advice",
        "again",
    ]


@dataclass(frozen=True)
class Limited(Checked):
    mode: str = option(MEASURE, "a", "How.", choices=("a", "b"))
    numbers: tuple[int, ...] = option(
        MEASURE, (), "Which.", convert=lambda text: (int(text),), minimum=1
    )
    limit_s: float | None = option(MEASURE, None, "Limit.", "-l", "--limit", above=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "c"}, "--mode c: must be one of a, b"),
        ({"numbers": (8, 0)}, "--numbers: must be 1 or more"),
        ({"limit_s": 0.0}, "--limit 0.0: must be above 0"),
        ({"limit_s": float("nan")}, "--limit nan: must be a finite number"),
        ({"limit_s": float("inf")}, "--limit inf: must be a finite number"),
    ],
)
def test_a_value_that_an_option_does_not_take(given: dict[str, Any], said: str) -> None:
    assert Limited(mode="b", numbers=(1,), limit_s=0.5).limit_s == 0.5
    with pytest.raises(UsageError) as refused:
        Limited(**given)
    assert refused.value.message == said


def test_an_argument_that_may_be_left_out_is_one_on_every_interpreter() -> None:
    @Verb
    def verb(word: Annotated[str | None, typer.Argument(help="A word.")] = None) -> str | None:
        """One argument."""
        return word

    assert (call(verb), call(verb, "w")) == (None, "w")
