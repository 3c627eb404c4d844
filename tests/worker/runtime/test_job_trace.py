"""The trace of a job within its task, with OpenTelemetry's own API."""

import os
import sys

import pytest
from opentelemetry import trace

from fusiond.producer.tracing import traceparent
from fusiond.worker.runtime import job_trace

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_producers_span_is_the_current_one(monkeypatch):
    """So spans of the task are its children, and jobs that the task enqueues are of the same trace."""
    monkeypatch.delenv("TRACEPARENT", raising=False)
    leave = job_trace.enter(TRACE, alone=True)
    context = trace.get_current_span().get_span_context()
    assert (f"{context.trace_id:032x}", f"{context.span_id:016x}", context.is_remote) == (
        TRACE[3:35],
        TRACE[36:52],
        True,
    )
    assert traceparent() == os.environ["TRACEPARENT"] == TRACE
    leave()
    assert not trace.get_current_span().get_span_context().is_valid
    assert "TRACEPARENT" not in os.environ


def test_beside_others_the_environment_stays(monkeypatch):
    """Which all jobs of the process share; and what it had before comes back."""
    monkeypatch.setenv("TRACEPARENT", "before")
    leave = job_trace.enter(TRACE, alone=False)
    assert os.environ["TRACEPARENT"] == "before"
    assert traceparent() == TRACE
    leave()
    leave = job_trace.enter(TRACE, alone=True)
    assert os.environ["TRACEPARENT"] == TRACE
    leave()
    assert os.environ["TRACEPARENT"] == "before"


@pytest.mark.parametrize("wrong", [None, 7, "", "a-b-c-d", TRACE[:-1], TRACE.replace("b7ad", "xyz?"), {}])
def test_what_is_no_trace_changes_nothing(monkeypatch, wrong):
    """Another program may have written the job."""
    monkeypatch.delenv("TRACEPARENT", raising=False)
    job_trace.enter(wrong, alone=True)()
    assert "TRACEPARENT" not in os.environ


def test_without_opentelemetry_the_environment_has_it(monkeypatch):
    monkeypatch.delenv("TRACEPARENT", raising=False)
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    leave = job_trace.enter(TRACE, alone=True)
    assert os.environ["TRACEPARENT"] == TRACE
    leave()
