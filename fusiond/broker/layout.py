"""
The layout of a namespace: the number in `ns:meta` that says how its keys are to be read.

Whoever reads or writes a namespace looks at it first: daemons when they start, clients with the catalogue or before
their first other call, commands when they connect. docs/upgrading.md says what versions with the same number may do
together.
"""

from __future__ import annotations

from typing import TypeVar

from fusiond.broker.call import Call, Plan, plain, raw
from fusiond.broker.keys import LAYOUT, Keys
from fusiond.errors import BrokerUnfit

T = TypeVar("T")


def layout_of(keys: Keys) -> Call[bytes | None]:
    """The number, as it is stored; None: no daemon has used the namespace."""
    return plain(raw, "HGET", keys.meta, "layout")


def refuse_other(found: bytes | None, keys: Keys, redis: str = "Redis") -> None:
    """Raise BrokerUnfit with the remedy for a layout that is not known here. `redis`: which one, for the sentence."""
    if found in (None, b"%d" % LAYOUT):
        return
    layout, namespace = found.decode(errors="replace"), repr(keys.namespace)
    is_older = found.isdigit() and int(found) < LAYOUT
    remedy = "no release has written it: delete these keys" if is_older else "upgrade fusiond"
    raise BrokerUnfit(
        f"{redis} holds layout {layout} under {namespace}, this fusiond knows {LAYOUT}; "
        f"{remedy} or use another namespace"
    )


class LayoutCheck:
    """A look at the layout before the first of many calls."""

    def __init__(self, keys: Keys | None) -> None:
        """`keys`: of the namespace; None: it is in memory, and there is no look."""
        self._keys = keys

    def check_then_run(self, what: Call[T] | Plan[T]) -> Plan[T]:
        """The same call or plan. Raises BrokerUnfit in its place if the keys have another layout."""
        if self._keys is not None:
            found = yield layout_of(self._keys)
            refuse_other(found, self._keys)
            if found is not None:
                self._keys = None
        if isinstance(what, Call):
            return (yield what)  # type: ignore[no-any-return]
        return (yield from what)
