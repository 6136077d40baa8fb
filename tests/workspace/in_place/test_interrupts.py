"""Signals while files are swapped: put off, told once, and back with whoever had them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from instrumentor.workspace.in_place.interrupts import Interrupts

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """A signal that nobody takes would end the tests."""
    before = {number: signal.signal(number, lambda *_: None) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", NUMBERS)
def test_each_signal_is_an_interrupt_while_it_is_taken(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), Interrupts().taken():
        send(number)
    assert signal.getsignal(number) == before
    send(number)


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As under nohup: a closed terminal does not end the run."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupts().taken():
        send(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_what_comes_in_a_critical_part_is_told_once_at_its_end() -> None:
    interrupts, done = Interrupts(), []
    with interrupts.taken():
        with pytest.raises(KeyboardInterrupt), interrupts.put_off():
            with interrupts.put_off():
                send()
                send()
                done.append("inner")
            done.append("outer")
        with interrupts.put_off():
            done.append("later")
    assert done == ["inner", "outer", "later"]


def test_a_critical_part_that_fails_has_ended() -> None:
    interrupts = Interrupts()
    with interrupts.taken():
        with pytest.raises(OSError, match="full"), interrupts.put_off():
            raise OSError("full")
        with pytest.raises(KeyboardInterrupt):
            send()


def test_another_thread_takes_no_signal() -> None:
    found: list[object] = []

    def take() -> None:
        with Interrupts().taken():
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert found == [before]
