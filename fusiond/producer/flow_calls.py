"""
Start runs of flows for producers, without I/O.

1. find    the flow in the catalogue that the daemons publish: it has the shape that the run keeps
2. check   that the call has each input of the flow, and no other one
3. start   the run, under an id that is made here
"""

from collections.abc import Mapping
from typing import Any

from fusiond.broker.call import Plan
from fusiond.broker.hosts.host_records import NO_CATALOGUE
from fusiond.broker.verbs import Verbs
from fusiond.config.lint.suggest import listed, nearest
from fusiond.enqueue_options import safe_repr
from fusiond.errors import BadArguments, UnknownTask
from fusiond.flows.run_control import RunControl, RunRef
from fusiond.flows.shapes import Shape
from fusiond.job import new_id
from fusiond.producer.store import Store


class FlowStarter:
    """Starts the runs of one client."""

    def __init__(self, broker: Verbs, store: Store) -> None:
        """`store`: knows how the client has what it stores confirmed."""
        self._broker, self._store = broker, store
        self._catalogue = NO_CATALOGUE
        self.control = RunControl(broker)

    def run_flow(self, name: str, inputs: Mapping[str, Any]) -> Plan[RunRef]:
        """Start a run. Raises UnknownTask, BadArguments, BrokerError."""
        self._catalogue = yield from self._broker.catalogue(self._catalogue)
        shape = self._shape(name)
        check_inputs(shape, inputs)
        confirm = yield from self._store.confirmation()
        return (yield from self.control.start(RunRef(shape.own.queue, new_id()), shape, inputs, confirm))

    def _shape(self, name: str) -> Shape:
        flows = self._catalogue.flows
        if name not in flows:
            known = nearest(str(name), flows, "known flows") if flows else "there are none"
            raise UnknownTask(f"flow {safe_repr(name)} is in no daemon's file; {known}")
        return Shape.from_dict(flows[name])


def check_inputs(shape: Shape, inputs: Mapping[str, Any]) -> None:
    """Raise BadArguments if an input is missing, or is none of the flow's."""
    wanted = shape.own.inputs()
    if missing := [each for each in wanted if each not in inputs]:
        raise BadArguments(f"flow {shape.flow!r} needs the input {missing[0]!r}; its inputs are {listed(wanted)}")
    if strange := [each for each in inputs if each not in wanted]:
        known = nearest(strange[0], wanted, "its inputs") if wanted else "it has none"
        raise BadArguments(f"flow {shape.flow!r} has no input {safe_repr(strange[0])}; {known}")
