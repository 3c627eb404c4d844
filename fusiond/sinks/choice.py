"""Which outlet a sink has, by its kind. What a kind needs is imported in its own program alone."""

from __future__ import annotations

from fusiond.config.model.event_log import Sink
from fusiond.errors import FusionError
from fusiond.installed import not_installed
from fusiond.sinks.outlets import Outlet


def outlet(sink: Sink) -> Outlet:
    """The outlet of a sink. Raises FusionError where a package is missing."""
    if missing := not_installed(sink.kind):
        remedy = f"pip install 'fusiond[{sink.kind}]', or remove the sink"
        raise FusionError(f"events.sinks: {missing[0]} is not installed; {remedy}")
    if sink.kind == "file":
        from fusiond.sinks.file_outlet import FileOutlet

        return FileOutlet(sink)
    if sink.kind == "load":
        from fusiond.sinks.load_outlet import LoadOutlet

        return LoadOutlet(sink)
    if sink.kind == "elasticsearch":
        from fusiond.sinks.elastic_outlet import ElasticOutlet

        return ElasticOutlet(sink)
    if sink.kind == "otlp":
        from fusiond.sinks.otlp_outlet import OtlpOutlet

        return OtlpOutlet(sink)
    from fusiond.sinks.webhook_outlet import WebhookOutlet

    return WebhookOutlet(sink)
