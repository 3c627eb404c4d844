"""The sink for OpenTelemetry: what a collector gets, read with the official protocol's messages."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from fusiond.config.model.event_log import Sink
from fusiond.sinks.otlp_outlet import OtlpOutlet
from fusiond.sinks.outlets import DeliveryError, RefusedTogetherError
from tests.support.receiver import Receiver

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def collector():
    with Receiver() as collector:
        collector.body = b""
        yield collector
        collector.shutdown()


@pytest.fixture
def outlet(collector):
    return OtlpOutlet(Sink("otlp", url=collector.url))


def attempt(event="finished", **more):
    known = {
        "id": "q:7:9", "event": event, "queue": "q", "job_id": "a", "task": "t", "attempt": 2, "host": "box",
        "group": "main", "began_at": "2026-11-23T08:00:00.250Z", "duration": 1.5, "wait": 0.25,
    }  # fmt: skip
    return known | more


def sent(collector):
    """The spans of the last request."""
    method, path, headers, body = collector.requests[-1]
    assert (method, path, headers["content-type"]) == ("POST", "/v1/traces", "application/x-protobuf")
    request = ExportTraceServiceRequest.FromString(body)
    return [span for resource in request.resource_spans for span in resource.scope_spans[0].spans]


def test_an_attempt_is_a_span_of_the_trace_in_which_it_was_enqueued(outlet, collector):
    """With its times, and what is known of it."""
    outlet.deliver([attempt(traceparent=f"00-{TRACE}-{SPAN}-01")])
    (span,) = sent(collector)
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.name) == (TRACE, SPAN, "t")
    assert span.end_time_unix_nano - span.start_time_unix_nano == 1_500_000_000
    assert span.start_time_unix_nano == 1_795_420_800_250_000_000
    said = {each.key: each.value for each in span.attributes}
    assert (said["fusiond.job.id"].string_value, said["fusiond.attempt"].int_value) == ("a", 2)
    assert span.status.code == Status.STATUS_CODE_OK


def test_a_failure_says_why(outlet, collector):
    """As status and as an exception."""
    outlet.deliver([attempt("retry", error={"code": "EXCEPTION", "type": "ValueError", "message": "no such row"})])
    (span,) = sent(collector)
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "no such row")
    said = {each.key: each.value.string_value for each in span.events[0].attributes}
    assert said == {"exception.type": "ValueError", "exception.message": "no such row"}


def test_without_a_trace_the_attempts_of_a_job_are_one(outlet, collector):
    """Each with an id of its own, the same whenever it is sent."""
    first, second = attempt("retry", id="q:7:9"), attempt(id="q:8:9")
    outlet.deliver([first, second])
    before = [(span.trace_id, span.span_id) for span in sent(collector)]
    outlet.deliver([first, second])
    assert [(span.trace_id, span.span_id) for span in sent(collector)] == before
    assert before[0][0] == before[1][0] != before[0][1]
    assert before[0][1] != before[1][1]


def test_what_is_no_attempt_or_not_sampled_is_not_sent(outlet, collector):
    """Nor is an empty request."""
    enqueued = {"id": "q:1:9", "event": "enqueued", "queue": "q", "job_id": "a", "task": "t"}
    outlet.deliver([enqueued, attempt(traceparent=f"00-{TRACE}-{SPAN}-00")])
    assert collector.requests == []


def test_an_attempt_whose_lease_was_lost_is_a_span(outlet, collector):
    """From its claim to its rescue, as an error: nobody knows when it ended."""
    lost = attempt("rescued", claimed_at="2026-11-23T08:00:00.000Z", log_time="2026-11-23T08:00:15.500Z")
    del lost["began_at"], lost["duration"]
    outlet.deliver([lost])
    (span,) = sent(collector)
    assert span.end_time_unix_nano - span.start_time_unix_nano == 15_500_000_000
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "its worker has lost the lease")


def test_a_busy_collector_and_one_that_lies(outlet, collector):
    """Each in its way: asked again, or refused."""
    collector.status, collector.headers = 429, {"Retry-After": "4"}
    with pytest.raises(DeliveryError) as busy:
        outlet.deliver([attempt()])
    assert (busy.value.left, busy.value.retry_after) == (None, 4)
    collector.status, collector.headers, collector.body = 200, {}, b"<html>"
    with pytest.raises(DeliveryError, match="cannot be read"):
        outlet.deliver([attempt()])
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans, answer.partial_success.error_message = 1, "too old"
    collector.body = answer.SerializeToString()
    with pytest.raises(DeliveryError, match="1 spans were refused: too old") as refused:
        outlet.deliver([attempt()])
    assert (len(refused.value.refused), refused.value.left) == (1, ())
    for status in (400, 413):
        collector.status = status
        with pytest.raises(RefusedTogetherError):
            outlet.deliver([attempt()])
