"""Iterators and calls in threads of their own: order, bounds, errors, and their end."""

import itertools
import threading
import time

import pytest

from grilly.commands.ahead import Ahead, Behind


def test_items_come_in_turns_and_no_more_are_made_than_wait():
    made = []

    def numbers(start):
        for number in itertools.count(start):
            made.append(number)
            yield number

    with Ahead([numbers(0), numbers(100)], 3, threading.Event()) as found:
        assert list(itertools.islice(found, 6)) == [0, 100, 1, 101, 2, 102]
        time.sleep(0.3)
        assert len(made) <= 6 + 2 * (3 + 1)  # those that wait, and one in the hand of each thread


def test_an_iterator_that_ends_leaves_the_others():
    with Ahead([iter_of("ab"), iter_of(""), iter_of("xyz")], 1, threading.Event()) as found:
        assert list(found) == ["a", "x", "b", "y", "z"]
        assert not found.ready() and next(found, None) is None


def iter_of(items):
    yield from items


def test_an_error_is_raised_where_its_item_would_be():
    def fails():
        yield 1
        raise KeyError("two")

    with Ahead([fails(), iter_of([5, 6])], 4, threading.Event()) as found:
        assert [next(found), next(found)] == [1, 5]
        with pytest.raises(KeyError, match="two"):
            next(found)


def test_ready_tells_whether_an_item_is_there():
    go = threading.Event()

    def waits():
        yield 1
        go.wait()
        yield 2

    with Ahead([waits()], 2, threading.Event()) as found:
        assert next(found) == 1 and not found.ready()
        go.set()
        end = time.monotonic() + 10
        while not found.ready() and time.monotonic() < end:
            time.sleep(0.01)
        assert found.ready() and next(found) == 2


def test_those_that_feed_each_other_stop_together_and_are_closed():
    closed = []

    def endless():
        try:
            yield from itertools.count()
        finally:
            closed.append("inner")

    def doubled(inner):
        try:
            yield from (2 * number for number in inner)
        finally:
            closed.append("outer")

    stop = threading.Event()
    with Ahead([endless()], 2, stop) as inner:
        outer = Ahead([doubled(inner)], 2, stop)
        assert list(itertools.islice(outer, 4)) == [0, 2, 4, 6]
        outer.join()
        assert closed.count("outer") == 1
        inner.join()
    assert sorted(closed) == ["inner", "outer"]


def test_a_thread_that_waits_for_another_stops():
    stop = threading.Event()

    def never():
        stop.wait()
        yield from ()

    with Ahead([never()], 1, stop) as inner:
        outer = Ahead([iter_of(inner)], 1, stop)
        begun = time.monotonic()
        outer.join()
        assert time.monotonic() - begun < 5


def test_a_call_runs_behind_its_caller_and_waits_for_the_one_before():
    go, done = threading.Event(), []

    def waits(item):
        assert go.wait(60)
        done.append(item)

    with Behind(waits) as call:
        call(1)
        assert not done
        threading.Timer(0.1, go.set).start()
        call(2)
        assert done[0] == 1
    assert done == [1, 2]


def test_an_error_of_a_call_is_raised_by_the_next_or_at_the_end():
    def fails(item):
        raise KeyError(item)

    with pytest.raises(KeyError, match="1"), Behind(fails) as call:
        call(1)
    with pytest.raises(KeyError, match="2"), Behind(fails) as call:
        call(2)
        call(3)
    with pytest.raises(MemoryError), Behind(fails) as call:  # that of the caller goes first
        call(4)
        raise MemoryError
