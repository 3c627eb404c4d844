"""A real daemon for a target, on a Redis of its own, and those of its processes that must outlive it all."""

import shutil
from pathlib import Path

from fusiond import paths
from fusiond.broker.call import as_is, plain
from fusiond.broker.verbs import Verbs
from tests.chaos.plant import CHILD, Plant
from tests.support.running import Running

HERE = Path(__file__).parent


class Ground(Plant):
    """`with Ground(file, "module.py") as ground: ground.start_up()`; `{app}` in the file is where the module is."""

    declares = ()

    def __init__(self, file, *sources):
        Running.__init__(self)
        for source in sources:
            shutil.copy(HERE / source, self.app)
        self.write(file.replace("{app}", str(self.app)))
        self.environment = {}
        self.url = f"unix://{paths.redis_socket(self.runtime)}"
        self.broker = Verbs()

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
        """How many keys Redis holds, without those that say for 15 s which job a wake-up has brought."""
        return self.redis("DBSIZE") - len(self.redis("KEYS", "*:given:*"))
