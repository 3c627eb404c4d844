"""Who looks after the runs of flows."""

import asyncio

from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config, Flow
from fusiond.errors import BrokerError
from fusiond.schedule.flow_keeping import FlowKeeper


class Refusing:
    """A connection whose Redis refuses everything."""

    def __init__(self) -> None:
        self.asked = 0

    async def run(self, _plan) -> None:
        self.asked += 1
        raise BrokerError("WRONGTYPE")


def test_a_queue_in_which_redis_refuses_something_does_not_keep_it_from_the_others():
    """The runs of the others would else wait for the next sweep, each time."""
    flows = {name: Flow(name=name, steps={}, queue=name) for name in "abc"}
    connection = Refusing()
    asyncio.run(FlowKeeper(Verbs("test"), connection, Config(flows=flows)).run_once())
    assert connection.asked == 3
