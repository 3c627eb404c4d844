"""
A collector of OpenTelemetry: a span for each attempt that has begun and ended, by OTLP over HTTP. Of an attempt whose
lease was lost it is from the claim to the rescue.

A span is a child of the span in which its job was enqueued, if there is one, and not sent where that was not sampled.
Else the attempts of a job are a trace of their own. A span that is sent again has the same id, made of the event's.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import ssl
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from fusiond.config.model.event_log import Sink
from fusiond.sinks.outlets import DeliveryError, Document, RefusedTogetherError

_TIMEOUT = 15.0
#: of an answer, which says little
_KEPT = 65536
#: answers after which the specification has a client try again
_BUSY = frozenset({429, 502, 503, 504})
_REFUSED = frozenset({400, 413})
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_FAILED = frozenset({"failed", "retry"})
#: field of an event → attribute
_ATTRIBUTES = {
    "job_id": "fusiond.job.id", "queue": "fusiond.queue", "task": "fusiond.task", "task_type": "fusiond.task_type",
    "attempt": "fusiond.attempt", "event": "fusiond.outcome", "group": "fusiond.group", "wait": "fusiond.wait",
}  # fmt: skip


class OtlpOutlet:
    """Spans to one collector."""

    most = 500

    def __init__(self, sink: Sink) -> None:
        parts = urlsplit(sink.url or "")
        self._url, self._host, self._secure = sink.url, parts.netloc, parts.scheme == "https"
        self._path = parts.path.rstrip("/") + "/v1/traces"

    def deliver(self, documents: Sequence[Document]) -> None:
        """Send the spans of those that are attempts. Raises DeliveryError."""
        request = export_request(documents)
        if not request.resource_spans:
            return
        try:
            status, answer, after = self._post(request.SerializeToString())
        except (OSError, http.client.HTTPException) as error:
            raise DeliveryError(f"{self._url}: {str(error) or type(error).__name__}") from error
        if status in _BUSY:
            retry_after = float(after) if after.isdecimal() else None
            raise DeliveryError(f"{self._url} answered {status}", retry_after=retry_after)
        if status in _REFUSED:
            raise RefusedTogetherError(f"{self._url} answered {status}")
        if not 200 <= status < 300:
            raise DeliveryError(f"{self._url} answered {status}")
        _check(answer)

    def close(self) -> None:
        """Nothing is kept open."""

    def _post(self, body: bytes) -> tuple[int, bytes, str]:
        """Status, body and Retry-After of the answer."""
        if self._secure:
            context = ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, timeout=_TIMEOUT, context=context
            )
        else:
            connection = http.client.HTTPConnection(self._host, timeout=_TIMEOUT)
        try:
            headers = {"Content-Type": "application/x-protobuf", "User-Agent": "fusiond"}
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            return response.status, response.read(_KEPT), response.getheader("Retry-After", "")
        finally:
            connection.close()


def _check(answer: bytes) -> None:
    """A collector may have refused some spans, and does not want them again: one sentence. Raises DeliveryError."""
    try:
        refused = ExportTraceServiceResponse.FromString(answer).partial_success
    except Exception as error:  # protobuf has no type of its own in all versions
        raise DeliveryError("the collector's answer cannot be read") from error
    if refused.rejected_spans:
        sentence = f"{refused.rejected_spans} spans were refused: {refused.error_message}"
        raise DeliveryError(sentence, refused=[sentence] * refused.rejected_spans, left=())


def export_request(documents: Sequence[Document]) -> ExportTraceServiceRequest:
    """The spans of these events, by host."""
    by_host: dict[str, ResourceSpans] = {}
    request = ExportTraceServiceRequest()
    for document in documents:
        span = span_of(document)
        if span is None:
            continue
        host = str(document.get("host", ""))
        if host not in by_host:
            by_host[host] = request.resource_spans.add()
            by_host[host].resource.attributes.extend(
                [_attribute("service.name", "fusiond"), _attribute("host.name", host)]
            )
            by_host[host].scope_spans.add().scope.name = "fusiond"
        by_host[host].scope_spans[0].spans.append(span)
    return request


def span_of(document: Document) -> Span | None:
    """The span of an attempt that is over; None: it is no such event, or its trace is not sampled."""
    times = _times(document)
    if times is None:
        return None
    parent = _TRACEPARENT.fullmatch(document.get("traceparent", ""))
    if parent and not int(parent[3], 16) & 1:
        return None
    job = f"{document['queue']}/{document['job_id']}"
    span = Span(
        trace_id=bytes.fromhex(parent[1]) if parent else _digest(job, 16),
        span_id=_digest(document["id"], 8),
        parent_span_id=bytes.fromhex(parent[2]) if parent else b"",
        name=document["task"],
        kind=Span.SPAN_KIND_CONSUMER,
        start_time_unix_nano=times[0] * 1_000_000,
        end_time_unix_nano=times[1] * 1_000_000,
        attributes=[_attribute(name, document[field]) for field, name in _ATTRIBUTES.items() if field in document],
    )
    _set_status(span, document)
    return span


def _times(document: Document) -> tuple[int, int] | None:
    """Begin and end of the attempt, epoch ms."""
    if "began_at" in document and "duration" in document:
        began = _ms(document["began_at"])
        return began, began + round(document["duration"] * 1000)
    return (_ms(document["claimed_at"]), _ms(document["log_time"])) if "claimed_at" in document else None


def _ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def _set_status(span: Span, document: Document) -> None:
    if document["event"] == "finished":
        span.status.code = Status.STATUS_CODE_OK
    elif "claimed_at" in document:
        span.status.code, span.status.message = Status.STATUS_CODE_ERROR, "its worker has lost the lease"
    elif document["event"] in _FAILED:
        error = document.get("error", {})
        span.status.code = Status.STATUS_CODE_ERROR
        span.status.message = error.get("message", "")
        exception = span.events.add(name="exception", time_unix_nano=span.end_time_unix_nano)
        kind = error.get("type") or error.get("code", "")
        exception.attributes.extend(
            [_attribute("exception.type", kind), _attribute("exception.message", error.get("message", ""))]
        )


def _attribute(name: str, value: str | float) -> KeyValue:
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    if isinstance(value, float):
        return KeyValue(key=name, value=AnyValue(double_value=value))
    return KeyValue(key=name, value=AnyValue(string_value=value))


def _digest(text: str, size: int) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:size]
