"""Whatever bytes are given: a rewritten module or a typed error, never anything else."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from instrumentor import InstrumentError, rewrite
from instrumentor.rewrite.engine import strip
from tests.training_scripts import Shape, compose, shapes

THOROUGH = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
PIECES = (
    *(b"for x in y:", b"while True:", b"loss = model(x)", b"loss.backward()", b"optimizer.step()"),
    *(b"torch_xla.sync()", b"    ", b"\t", b"\n", b"\r\n", b"\r", b"\f", b";", b"\\\n", b'"""'),
    *(b"# coding: latin-1\n", b"\xef\xbb\xbf", b"\xff", b"\0", b"if x: ", b"else: "),
    *(b"match x:\n case 1: ", b"async ", b"await ", b"yield ", b"lambda: ", b"def f(): "),
    *(b"class A: ", b"with a as b: ", b"try: ", b"except: ", b"global loss\n", b"del loss\n"),
    *(b"(loss := model(x)).backward()", b"import torch\n", b"from torch import *\n"),
    *(b"type X = int\n", b"print(loss.item())", b"validate(model)", b"return", b"break", b"["),
    b")",
)


def survive(source: bytes) -> None:
    try:
        result = rewrite(source)
    except InstrumentError as error:
        assert error.message
        return
    compile(result.code, "fuzzed", "exec", dont_inherit=True)
    assert strip(result.code) == source


@THOROUGH
@given(st.binary(max_size=200))
@example(b"")
@example(b"\xef\xbb\xbf")
@example(b"\xff\xfeb\0a\0")
@example(b"# -*- coding: utf-16 -*-\nx = 1\n")
@example(b"# coding: rot13\nbackward\n")
@example(b"(" * 5000)
@example(b"-" * 20000 + b"x")
@example(b"x = " + b"[" * 90 + b"]" * 90)
@example(b"a" + b".b" * 5000 + b".backward()")
@example(b"for x in y:\n " + b"if x:" * 150 + b"loss.backward()")
def test_any_bytes(source: bytes) -> None:
    survive(source)


@THOROUGH
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join))
def test_pieces_of_training(source: bytes) -> None:
    survive(source)


@settings(THOROUGH, max_examples=60)
@given(shapes(), st.integers(0, 2**32))
@example(Shape(), 0)
def test_damaged_scripts(shape: Shape, seed: int) -> None:
    """A good script with a few lines lost, doubled, swapped or bytes changed."""
    chance = random.Random(seed)
    lines = compose(shape).splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(4):
            case 0:
                del lines[first]
            case 1:
                lines.insert(first, lines[second])
            case 2:
                lines[first], lines[second] = lines[second], lines[first]
            case 3:
                line = bytearray(lines[first])
                line[chance.randrange(len(line))] = chance.randrange(256)
                lines[first] = bytes(line)
    survive(b"".join(lines))


def test_ten_thousand_lines() -> None:
    """Long files are rewritten in linear time; the bound is only a hang's."""
    filler = b"".join(b"def f%d(x):\n    return [x, %d]\n\n\n" % (n, n) for n in range(2500))
    source = filler + compose(Shape(place="module"))
    result = rewrite(source)
    assert strip(result.code) == source
