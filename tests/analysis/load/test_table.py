"""Columns, their distinct rows and groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor_analysis.load.table import (
    Categorical,
    Groups,
    Table,
    by_figure,
    concat,
    number,
)

cells = st.sampled_from(["a", "b", "c", None])
figures = st.sampled_from([1.0, 2.0, 4.5, float("nan")])
three = st.lists(st.tuples(cells, cells, figures), min_size=1, max_size=40)


def table(rows: list[tuple[str | None, str | None, float]]) -> Table:
    """Columns x, y and n."""
    x, y, n = zip(*rows, strict=True)
    return Table({"x": Categorical.of(x), "y": Categorical.of(y), "n": np.asarray(n)})


@given(three)
def test_distinct_rows_are_numbered(rows: list[tuple[str | None, str | None, float]]) -> None:
    found = table(rows)
    which, first = number(*(found[name] for name in found.columns))
    keys = [tuple("nan" if v != v else str(v) for v in row) for row in rows]
    for at, key in enumerate(keys):
        assert keys[first[which[at]]] == key
    assert len(first) == len(set(keys))
    assert all(keys.index(keys[at]) == at for at in first)


def test_columns_that_share_their_codes_are_distinct_by_their_values() -> None:
    codes = np.asarray([0, 1, 2, -1, 1])
    same, other = Categorical(codes, ["a", "a", "b"]), Categorical(codes, [1, 1, 1])
    assert number(same, other)[0].tolist() == [0, 0, 1, 2, 0]
    assert number(other)[0].tolist() == [0, 0, 0, 1, 0]


def test_number_survives_more_combinations_than_an_integer_holds() -> None:
    size = 3000
    which, first = number(*(np.arange(size) % (size - i) for i in range(8)))
    assert len(first) == size
    assert which.tolist() == list(range(size))


@given(three)
def test_groups_say_what_pandas_says(rows: list[tuple[str | None, str | None, float]]) -> None:
    found = table(rows)
    groups = Groups(found["x"])
    frame = found.to_pandas().groupby("x", dropna=False, sort=False)["n"]
    expected = pd.DataFrame(
        {"sum": frame.sum(), "mean": frame.mean(), "std": frame.std(), "max": frame.max()}
    )
    np.testing.assert_allclose(groups.sums(found["n"]), expected["sum"])
    np.testing.assert_allclose(groups.means(found["n"]), expected["mean"])
    np.testing.assert_allclose(groups.stdevs(found["n"]), expected["std"], atol=1e-12)
    np.testing.assert_allclose(groups.apply(np.max, found["n"]), expected["max"])
    assert groups.sizes.tolist() == frame.size().tolist()
    nth = found.to_pandas().groupby("x", dropna=False).cumcount()
    assert groups.nth().tolist() == nth.tolist()


@given(three)
def test_rows_one_behind_the_other(rows: list[tuple[str | None, str | None, float]]) -> None:
    both = concat([table(rows), table(rows[::-1])])
    np.testing.assert_equal(list(both.records()), list(table(rows + rows[::-1]).records()))


def test_a_mapped_column_is_blank_where_there_is_nothing_to_say() -> None:
    column = Categorical.of(["a", None, "b"])
    assert column.map([None, "B"]).tolist() == [None, None, "B"]
    assert column.map([None, "B"]).known().tolist() == [False, False, True]
    assert column.equals("a", "c").tolist() == [True, False, False]


def test_columns_have_one_length() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        Table({"x": np.arange(2), "y": np.arange(3)})


@given(st.lists(cells, min_size=1, max_size=40), st.data())
def test_a_part_has_the_values_of_its_rows(column: list[str | None], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(column) - 1), max_size=40))
    more = [f"v{at}" for at in range(200)]
    whole = Categorical.of([*column, *more])
    both = Table({"x": whole, "y": whole.map([*map(str.upper, whole.values)])})
    part = both.take(np.asarray(rows, np.intp))
    expected = [column[at] for at in rows]
    assert part["x"].tolist() == whole[rows].tolist() == expected
    assert part["y"].tolist() == [each and each.upper() for each in expected]
    assert part["x"].codes is part["y"].codes
    assert {*part["x"].values} == {*whole[rows].values} == {*expected} - {None} or len(rows) > 68


@given(st.lists(st.one_of(figures, st.integers(0, 300).map(float)), max_size=60))
def test_rows_by_figure(values: list[float]) -> None:
    found, rows = by_figure(np.asarray(values, np.float64))
    expected = sorted({value for value in values if value == value})
    assert found.tolist() == expected
    assert [each.tolist() for each in rows] == [
        [at for at, value in enumerate(values) if value == figure] for figure in expected
    ]
