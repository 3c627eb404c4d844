"""The relay of a group: which effects it looks into, and when again."""

import asyncio

from fusiond.broker.redis.outage import Outage
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerUnavailable
from fusiond.worker.dispatcher.ends.effect_courier import EffectCourier


class Road(Outage):
    """A connection, and an outage that is over at once: counts the deliveries, in each of which something happens."""

    def __init__(self, *meanwhile) -> None:
        self.meanwhile, self.done = list(meanwhile), 0

    async def run(self, _plan) -> None:
        self.done += 1
        if self.meanwhile:
            self.meanwhile.pop(0)()

    async def wait(self, *_, **__) -> None:
        """Redis is there again."""


def deliveries(*meanwhile) -> int:
    """How many times the effects of a queue is delivered, that is noted once."""
    road = Road(*(lambda what=what: what(relay) for what in meanwhile))
    relay = EffectCourier(Verbs("test"), road, road)

    async def keep() -> None:
        relay.note("q")
        keeping = asyncio.create_task(relay.keep())
        for _ in range(20):
            await asyncio.sleep(0)
        keeping.cancel()

    asyncio.run(keep())
    return road.done


def away(_relay) -> None:
    raise BrokerUnavailable("gone")


def test_an_effects_is_looked_into_again_that_was_noted_during_its_delivery():
    """What came behind the last look of the delivery would else lie there until a sweep."""
    assert deliveries() == 1
    assert deliveries(lambda relay: relay.note("q")) == 2
    assert deliveries(away) == 2
    assert deliveries(away, lambda relay: relay.note("q")) == 3
