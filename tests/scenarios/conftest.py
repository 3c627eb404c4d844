"""Whole daemons, as their users start them."""

from tests.support.whole_daemons import _broker, _cluster, daemon, daemons, plant  # noqa: F401 - pytest finds fixtures here
