"""A real daemon for a target, on a Redis of its own, and those of its processes that must outlive it all."""

import contextlib
import shutil
from pathlib import Path

from fusiond import paths
from fusiond.broker.call import as_is, plain
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.errors import BrokerError
from tests.chaos.plant import CHILD, Plant
from tests.support.running import Running, until

HERE = Path(__file__).parent


class Ground(Plant):
    """`with Ground(file, "module.py") as ground: ground.start_up()`; `{app}` in the file is where the module is."""

    def __init__(self, file, *sources):
        Running.__init__(self)
        for source in sources:
            shutil.copy(HERE / source, self.app)
        self.write(file.replace("{app}", str(self.app)))
        self.environment = {}
        self.url = f"unix://{paths.redis_socket(self.runtime)}"
        self.broker = Verbs()

    def client(self):
        """A producer's, once the catalogue is there."""
        until(self._declared, self.text)
        return Client(self.url)

    def _declared(self):
        with contextlib.suppress(BrokerError):
            return bool(self.run(self.broker.catalogue()).tasks)
        return False

    def redis(self, *words):
        """Ask Redis in its own words."""
        return self.run(plain(as_is, *words))

    def lasting(self):
        """Name → pid of every process but the children."""
        found = {}
        for pid, kind in sorted(self.kinds().items()):
            if kind != CHILD:
                found[f"{kind} {sum(name.startswith(kind) for name in found) + 1}"] = pid
        return found

    def keys(self):
        """How many keys Redis holds."""
        return self.redis("DBSIZE")
