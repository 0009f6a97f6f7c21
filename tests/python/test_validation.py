"""The control of every test that asks the validation layer for silence: a message makes the test fail."""

import conftest
import pytest

import grilly.testing


def test_a_message_fails_the_test_during_which_it_came(monkeypatch):
    messages = ["VUID-old: before the test"]
    monkeypatch.setattr(grilly.testing, "validation_messages", lambda: messages)
    watch = conftest.validation_layer_is_silent.__wrapped__()
    next(watch)
    messages.append("VUID-new: during the test")
    with pytest.raises(pytest.fail.Exception, match="VUID-new") as failure:
        next(watch)
    assert "VUID-old" not in str(failure.value)


def test_silence_passes(monkeypatch):
    monkeypatch.setattr(grilly.testing, "validation_messages", lambda: ["VUID-old: before the test"])
    watch = conftest.validation_layer_is_silent.__wrapped__()
    next(watch)
    with pytest.raises(StopIteration):
        next(watch)


def test_a_suppressed_message_is_expected(monkeypatch):
    monkeypatch.setattr(conftest, "SUPPRESSIONS", [{"id": "VUID-known", "reason": "a test"}])
    assert conftest.unexpected(["VUID-known: a", "VUID-other: b"]) == ["VUID-other: b"]
