"""The trace of a producer's call is in the header of its job."""

import json
import sys
from types import SimpleNamespace

import pytest

from fusiond.broker.records import NewJob
from fusiond.enqueue_options import Options, encoded_options
from fusiond.errors import EnqueueError
from fusiond.producer.tracing import traceparent


def _trace(*, valid=True):
    context = SimpleNamespace(is_valid=valid, trace_id=0xABC, span_id=0x12, trace_flags=1)
    return SimpleNamespace(get_current_span=lambda: SimpleNamespace(get_span_context=lambda: context))


def test_the_current_span_of_a_program_that_uses_opentelemetry(monkeypatch):
    """As W3C has it; a program without it, or outside of a span, has none."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    assert traceparent() is None
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", _trace(valid=False))
    assert traceparent() is None
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", SimpleNamespace())
    assert traceparent() is None
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", _trace())
    found = traceparent()
    assert found == f"00-{'0' * 29}abc-{'0' * 14}12-01"
    assert json.loads(NewJob("a", "t", b"[]", traceparent=found).header()) == {"traceparent": found}


GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    "wrong",
    ["", "x", GOOD.upper(), "ff" + GOOD[2:], GOOD + "-00", "00-" + "0" * 32 + GOOD[35:], GOOD[:36] + "0" * 16 + "-01"],
)
def test_a_call_names_a_trace_or_is_refused(wrong):
    assert encoded_options(Options(traceparent=GOOD))["traceparent"] == GOOD
    with pytest.raises(EnqueueError, match="traceparent"):
        encoded_options(Options(traceparent=wrong))


def test_a_job_hands_its_trace_on(monkeypatch):
    """By its environment; a program that is not a job, or whose variable is nonsense, has none."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    monkeypatch.setenv("TRACEPARENT", GOOD)
    assert traceparent() is None
    monkeypatch.setenv("FUSION_JOB_ID", "a")
    assert traceparent() == GOOD
    monkeypatch.setenv("TRACEPARENT", "nonsense")
    assert traceparent() is None
