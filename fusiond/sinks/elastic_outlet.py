"""
An index of Elasticsearch, by the official client's `_bulk`.

Each event is created under its own id. A repeat is answered with 409, and changes nothing.
Each document has an answer of its own: stored, refused for good, or to be tried again, by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import elasticsearch
from elasticsearch import ApiError, Elasticsearch, TransportError

from fusiond.config.model.event_log import Sink
from fusiond.files import read_secret
from fusiond.sinks.outlets import DeliveryError, Document, RefusedTogetherError

#: s; for one request
_TIMEOUT = 30.0
#: statuses of one document: it is there already; it is refused whenever it is sent. Any other one is about the server
#: or the index, and may be another one later: 403 and 404 as well as 429 and 5xx
_THERE, _REFUSED = 409, frozenset({400, 413, 422})
_TOO_LARGE, _UNAUTHORIZED = 413, 401
#: what a server answers that is of an older major version than the client
_OLDER = "media_type_header_exception"


class ElasticOutlet:
    """One index, or data stream."""

    most = 500

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._client: Elasticsearch | None = None

    def deliver(self, documents: Sequence[Document]) -> None:
        """Have them stored. Raises DeliveryError."""
        operations: list[dict[str, Any]] = []
        for document in documents:
            operations += ({"create": {"_id": document["id"]}}, {"@timestamp": document["log_time"], **document})
        try:
            answer = self._connected().bulk(index=self._sink.index, operations=operations)
        except ApiError as error:
            raise self._refusal(error) from error
        except (TransportError, ValueError, RecursionError) as error:
            self.close()
            raise DeliveryError(f"{self._sink.url}: {error}") from error
        except OSError as error:
            raise DeliveryError(f"{error.filename}: {error.strerror}") from error
        else:
            self._check(documents, answer.body)

    def close(self) -> None:
        """End the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Elasticsearch:
        if self._client is None:
            key = read_secret(self._sink.api_key_file) if self._sink.api_key_file else None
            # Its own repeats would hide from us how long it takes.
            self._client = Elasticsearch(self._sink.url, api_key=key, request_timeout=_TIMEOUT, max_retries=0)
        return self._client

    def _refusal(self, error: ApiError) -> DeliveryError:
        """What it means that the whole request was refused."""
        status = error.meta.status
        if status == _UNAUTHORIZED:
            self.close()  # the file may have another key by now
        after = error.meta.headers.get("retry-after") or ""
        sentence = f"{self._sink.url} answered {status}: {error.message}"
        if error.message == _OLDER:
            major = elasticsearch.__version__[0]
            sentence += (
                f": the server is older than the package elasticsearch {major}; pip install 'elasticsearch<{major}'"
            )
        if status == _TOO_LARGE:
            return RefusedTogetherError(sentence)
        return DeliveryError(sentence, retry_after=float(after) if after.isdecimal() else None)

    def _check(self, documents: Sequence[Document], answer: Any) -> None:
        """Whether each document is there. Raises DeliveryError with what is to become of those that are not."""
        try:
            results = [item["create"] for item in answer["items"]]
            statuses = [int(result["status"]) for result in results]
        except (LookupError, TypeError, ValueError, OverflowError):
            statuses = []
        if len(statuses) != len(documents):
            raise DeliveryError(f"{self._sink.url}: its answer to _bulk cannot be read")
        refused, left, busy = [], [], []
        for document, result, status in zip(documents, results, statuses, strict=True):
            sentence = f"{self._sink.url} answered {status} to event {document['id']}: {_why(result)}"
            if status in _REFUSED:
                refused.append(sentence)
            elif status >= 300 and status != _THERE:
                left.append(document)
                busy.append(sentence)
        if left or refused:
            sentence = f"{len(left)} of {len(documents)} events not stored: {busy[0]}" if left else refused[0]
            raise DeliveryError(sentence, refused=refused, left=left)


def _why(result: Any) -> str:
    error = result.get("error")
    return str(error.get("reason", error) if isinstance(error, dict) else error)[:300]
