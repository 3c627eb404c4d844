"""
`python -m tests.chaos.redis`: every way in which Redis fails, under load, and the verdict; status 1 where a job came to
harm, or where jobs were begun again too late.

    killed       kill -9, started again on its file, which it writes before it answers
    stopped      SIGSTOP for longer than a lease
    cut          connections end before a request, between request and reply, within a reply; replies late or swallowed
    flushed      SCRIPT FLUSH
    full         maxmemory is reached, later lifted
    readonly     a replica takes over (FAILOVER) and gives back: READONLY
    loading      kill -9, and a start that takes seconds: LOADING
    misconf      a snapshot fails, so writes are refused: MISCONF
    busy         a script runs for longer than a lease: BUSY
    clock        its clock goes an hour forth, and back

The server is the harness' own; the daemon under test has a lease of 3 s, and logs its steps.
"""

import contextlib
import dataclasses
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from fusiond.errors import BrokerError
from tests.chaos import ledger, strikes, verdict
from tests.chaos.faults import Fault, Pulse
from tests.chaos.lag import Lag, OursStalled
from tests.chaos.load import Load, Mix
from tests.chaos.package import LEASE, LOGGED, SHORTER
from tests.chaos.plant import QUEUES, REDIS, Plant
from tests.chaos.proxy import AFTER, BEFORE, LATE, NEVER, WITHIN, Proxy
from tests.support.redis_server import Server, has_compiler
from tests.support.replicas import free_port
from tests.support.running import until

#: s; from Redis' return until a job begins, without what the daemons wait for a processor
BACK = 2.0
#: jobs per second, acknowledged between two faults, and still waiting before the next
RATE, BETWEEN, BACKLOG = 20, 10, 50
MIX = Mix(short=0.3, long=0.01, long_seconds=LEASE + 1.0)


class Outside(Plant):
    """A daemon whose Redis is the harness' own, behind a proxy where one is given; `runs`: where another notes its."""

    def __init__(self, server, edits, proxy=None, runs=None):
        super().__init__(edits)
        self.server, self.proxy = server, proxy
        self.url = (proxy or server).url
        text = self.file.read_text().replace("url: embedded", f"url: '{self.url}'")
        if runs:
            text, self.runs = text.replace(str(self.runs), str(runs)), runs
        # a clock that goes an hour forth drops what was to be kept for one
        self.file.write_text(text.replace("result_ttl: 1h", "result_ttl: 1d"))

    def connect(self):
        """The harness asks past the proxy."""
        return self.server.connect()


class Site:
    """What a fault is done to, and where it is noted."""

    def __init__(self, hosts, server, other, proxy, rand):
        """`hosts`: the daemons, the first of which is asked; `other`: a replica, where there is one."""
        self.hosts, self.plant = hosts, hosts[0]
        self.server, self.other, self.proxy, self.rand = server, other, proxy, rand
        self.faults = []
        #: s of each fault from the return until a job began; the two times of each that took too long
        self.back, self.late = [], []

    @contextlib.contextmanager
    def away(self):
        """Note how long Redis does not work, and how soon a job begins when it does again."""
        at = time.time()
        yield
        now = time.time()
        self.faults.append(Fault(REDIS, 0, at, now - at))
        began = until(lambda: self.plant.began_after(now), self.plant.text)
        self.back.append(began - now)
        if began - now > BACK:
            self.late.append((now, began))

    def nap(self, least, most):
        """Let it last."""
        time.sleep(self.rand.uniform(least, most))

    def more(self, count=BETWEEN):
        """Wait until so many more jobs were acknowledged."""
        self.plant.load.more(count)


def killed(site):
    with site.away():
        site.server.kill()
        site.nap(0.0, 0.5)
        site.server.start()
        until(site.server.answers)


def stopped(site):
    with site.away():
        site.server.stop()
        site.nap(LEASE + 0.5, LEASE + 2.0)
        site.server.resume()


#: probability of each for a request or a reply
CUTS = {BEFORE: 0.02, AFTER: 0.02, WITHIN: 0.02, LATE: 0.01, NEVER: 0.002}


def cut(site):
    """
    Some of each, then every connection.

    A swallowed reply costs its waiter 5 s, and who was cut waits a little: with so short a lease some may be lost.
    """
    before = site.proxy.done.total()
    swallowed = site.proxy.done[NEVER]
    at = time.time()
    site.proxy.chances = CUTS
    until(lambda: site.proxy.done.total() >= before + 5)
    site.proxy.chances = {}
    site.proxy.cut_all()
    lasting = 5.0 if site.proxy.done[NEVER] > swallowed else 1.0
    site.faults.append(Fault(REDIS, 0, at, time.time() - at + lasting))


def flushed(site):
    site.server.ask("SCRIPT", "FLUSH")


def full(site):
    """Claims, settles and renewals go on; producers are refused, and none of what they repeat is lost."""
    site.server.set("maxmemory", "1mb")
    acknowledged = len(site.plant.load.acks)
    site.nap(1.0, LEASE + 1.0)
    assert len(site.plant.load.acks) <= acknowledged + 1, "enqueued above maxmemory"
    site.server.set("maxmemory", "0")


def readonly(site):
    with site.away():
        fail_over(site.server, site.other)
        site.nap(0.5, LEASE + 1.0)
        fail_over(site.other, site.server)


def fail_over(primary, replica):
    """`replica` takes over, and `primary` replicates it."""
    until(lambda: f"port={replica.port},state=online" in primary.ask("INFO", "replication").decode())
    primary.ask("FAILOVER", "TO", "127.0.0.1", replica.port)
    until(lambda: b"role:slave" in primary.ask("INFO", "replication"), primary.text)
    until(lambda: b"master_link_status:up" in primary.ask("INFO", "replication"), primary.text)


def loading(site):
    compact(site.server)
    site.server.ask("EVAL", PAD, 0, 20_000)
    with site.away():
        site.server.kill()
        site.server.start(key_load_delay=100)  # µs a command
        assert refuses(site.server, "LOADING")
        until(site.server.answers)
        site.server.set("key-load-delay", "0")


#: commands for the file; every thousand of them it answers
PAD = "for _ = 1, ARGV[1] do redis.call('INCR', 'pad') end redis.call('DEL', 'pad')"


def compact(server):
    """Have the file begin again: what was padded before would be loaded again, and again."""
    server.ask("BGREWRITEAOF")
    over = (b"aof_rewrite_in_progress:0", b"aof_rewrite_scheduled:0")
    until(lambda: all(each in server.ask("INFO", "persistence") for each in over))


def misconf(site):
    gone = site.server.directory / "gone"
    with site.away():
        gone.mkdir()
        site.server.set("save", "3600 1")
        site.server.set("dir", str(gone))
        gone.rmdir()
        snapshot(site.server)
        until(lambda: refuses(site.server, "MISCONF"), site.server.text)
        site.nap(0.5, LEASE + 1.0)
        site.server.set("dir", str(site.server.directory))
        snapshot(site.server)
        until(lambda: not refuses(site.server, "MISCONF"), site.server.text)
    site.server.set("save", "")


def snapshot(server):
    """Have one written, or fail."""
    with contextlib.suppress(BrokerError):
        server.ask("BGSAVE")
    until(lambda: b"rdb_bgsave_in_progress:0" in server.ask("INFO", "persistence"))


def refuses(server, word):
    """Whether a write is answered so."""
    try:
        server.ask("DEL", "nothing")
    except BrokerError as error:
        return word in str(error)
    return False


def busy(site):
    """Nobody is served meanwhile; 100 ms after its begin others are told so."""
    site.server.set("busy-reply-threshold", "100")
    with site.away():
        thread = threading.Thread(target=run_for_ever, args=(site.server,))
        thread.start()
        until(lambda: not site.server.answers())
        site.nap(1.0, LEASE + 1.0)
        # refused until the script has run for the threshold
        until(lambda: refuses(site.server, "BUSY"))
        site.server.ask("SCRIPT", "KILL")
        until(site.server.answers)
    thread.join()


def run_for_ever(server):
    """A script, until it is killed."""
    with contextlib.suppress(BrokerError):
        server.ask("EVAL", "while true do end", 0)


def clock(site):
    """Every lease seems to have expired; later none does for an hour, but for being renewed."""
    for seconds in (3600, 0):
        at = time.time()
        site.server.shift(seconds)
        site.faults.append(Fault(REDIS, 0, at, time.time() - at + LEASE))
        site.more()


class Scenario(NamedTuple):
    """One way to fail."""

    strike: Callable[[Site], None]
    #: how often, in a long run
    times: int
    proxied: bool = False
    replicated: bool = False
    clocked: bool = False
    mix: Mix = MIX
    #: the code under test, of package.py
    edits: tuple = (*SHORTER, *LOGGED)
    #: daemons on one Redis
    hosts: int = 1


SCENARIOS = {
    "killed": Scenario(killed, 50),
    "stopped": Scenario(stopped, 50),
    "cut": Scenario(cut, 60, proxied=True),
    "flushed": Scenario(flushed, 100),
    "full": Scenario(full, 10),
    "readonly": Scenario(readonly, 10, replicated=True),
    "loading": Scenario(loading, 10),
    "misconf": Scenario(misconf, 10),
    "busy": Scenario(busy, 10),
    # what was to wait a second would wait an hour
    "clock": Scenario(clock, 10, clocked=True, mix=MIX._replace(delayed=0.0)),
}


def carry_out(scenario, times, seed=0):
    """Strike so often under load, then peace; returns the Finding. AssertionError: the daemon does not come to rest."""
    rand = random.Random(seed)
    with contextlib.ExitStack() as stack:
        plant, server, other, proxy = _build(stack, scenario, seed)
        more = [
            stack.enter_context(Outside(server, scenario.edits, runs=plant.runs)) for _ in range(scenario.hosts - 1)
        ]
        site = Site([plant, *more], server, other, proxy, rand)
        for host in site.hosts:
            host.start_up()
        plant.load = load = Load(plant.client(), 10**6, rate=RATE, mix=scenario.mix, seed=seed)
        # A machine that is too busy keeps Redis' answers back as well.
        pulse, lag = Pulse(plant), Lag(OursStalled([host.process.pid for host in site.hosts]))
        pulse.start()
        lag.start()
        stack.callback(lag.end)
        load.start()
        for _ in range(times):
            site.more()
            until(lambda: waiting(plant) < BACKLOG, lambda: f"{waiting(plant)} jobs wait\n{plant.text()}", timeout=300)
            scenario.strike(site)
        site.more()
        load.stop()
        ledger.settled(plant, load.acks, timeout=180)
        pulse.end()
        lag.end()
        found = ledger.conclude(plant, load.acks, site.faults)
        found.outages = pulse.faults
        for host in more:
            host.remember()
            assert host.stop() == 0
            found.strays += host.strays()
        violations = timeless(found) if scenario.clocked else verdict.judge(found)
        late = [pair for pair in site.late if pair[1] - pair[0] > BACK + lag.within(*pair)]
        violations += [f"a job began {began - now:.1f} s after Redis was back" for now, began in late]
        return strikes.Finding(found, violations, plant.text(), site.back)


def _build(stack, scenario, seed):
    """The daemon, its server, a replica, a proxy; the last two only where the scenario wants them."""
    place = Plant()  # for its directory alone
    stack.callback(place.close)
    port = free_port() if scenario.replicated else 0
    server = Server(place.directory, clocked=scenario.clocked, port=port)
    stack.callback(server.close)
    server.start()
    other = None
    if scenario.replicated:
        other = Server(place.directory, port=free_port(), name="other")
        stack.callback(other.close)
        other.start(replicaof=f"127.0.0.1 {port}")
    proxy = Proxy(place.directory / "p.sock", server.path, seed) if scenario.proxied else None
    if proxy:
        stack.callback(proxy.close)
    # not in its own directory, by which it is known what the daemon has left: several daemons may note runs here
    return stack.enter_context(Outside(server, scenario.edits, proxy, place.runs)), server, other, proxy


def waiting(plant):
    """Jobs in the queues: producers make up for the time in which Redis was away."""
    return sum(plant.run(plant.broker.counts(queue)).queued for queue in QUEUES)


def timeless(found):
    """The verdict where Redis' clock says nothing: steps in their order alone, and no word on when a lease ran out."""
    steps = {job: [step._replace(at=0.0) for step in each] for job, each in found.steps.items()}
    violations = verdict.judge(dataclasses.replace(found, steps=steps))
    return [sentence for sentence in violations if "ran out without a fault" not in sentence]


def missing(name):
    """What this machine lacks for a scenario."""
    return "there is no gcc" if SCENARIOS[name].clocked and not has_compiler() else ""


if __name__ == "__main__":
    sys.exit(strikes.main("redis", __doc__, SCENARIOS, carry_out, missing))
