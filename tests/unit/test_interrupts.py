from __future__ import annotations

import signal
import sys
import threading

import pytest

from ignite_strategy import interrupts

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 needs no help")


@pytest.fixture(autouse=True)
def handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    assert sys.getprofile() is None


class Interrupted(Exception):
    """Its constructor is what a pending signal meets first."""

    finished = False

    def __init__(self, inner: bool = False) -> None:
        if inner:
            self.interrupt()
        else:
            signal.raise_signal(signal.SIGINT)
        Interrupted.finished = True
        super().__init__("created")

    def interrupt(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("inner", [False, True])
def test_a_constructor_of_an_exception_ends_first(inner):
    interrupts.install()
    Interrupted.finished = False

    def fail() -> None:
        raise Interrupted(inner)

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert Interrupted.finished


def test_elsewhere_it_is_as_ever():
    interrupts.install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_handler_of_the_program_stays():
    def own(*_: object) -> None:
        raise AssertionError

    signal.signal(signal.SIGINT, own)
    interrupts.install()
    assert signal.getsignal(signal.SIGINT) is own


def test_another_thread_changes_nothing():
    thread = threading.Thread(target=interrupts.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
