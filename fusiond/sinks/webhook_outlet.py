"""A URL that gets one request for each event, signed and sent as the task `fusiond.tasks.webhook` does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from fusiond.config.model.event_log import Sink
from fusiond.sinks.outlets import DeliveryError, Document
from fusiond.tasks.webhooks import CALLBACK_HOSTS, WebhookRefused, WebhookUnavailable, webhook

#: s; for each step of a request
_TIMEOUT = 15.0
#: answers that are about the address or the login, and no matter of this event; another time they may be others
_OTHERS = frozenset({401, 403, 404, 405, 407})


class WebhookOutlet:
    """One request at a time; the header `webhook-id` is the event's id, so that the receiver recognizes a repeat."""

    most = 1

    def __init__(self, sink: Sink) -> None:
        self._url, self._secret = sink.url or "", sink.secret_file
        # The file names the host, which may be private.
        os.environ[CALLBACK_HOSTS] = urlsplit(self._url).hostname or ""

    def deliver(self, documents: Sequence[Document]) -> None:
        """Send it. Raises DeliveryError."""
        for document in documents:
            try:
                webhook(
                    self._url, document, timeout=_TIMEOUT, secret_file=self._secret, allow_private=True, job=document
                )
            except WebhookUnavailable as error:
                raise DeliveryError(str(error), retry_after=error.retry_after) from error
            except WebhookRefused as error:
                is_final = 400 <= error.status < 500 and error.status not in _OTHERS
                refused = [f"event {document['id']}: {error}"] if is_final else []
                raise DeliveryError(str(error), refused=refused, left=() if refused else None) from error
            except (OSError, ValueError) as error:
                raise DeliveryError(str(error)) from error

    def close(self) -> None:
        """Nothing is kept open."""
