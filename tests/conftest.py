"""
Fixtures for all tests: a real server for each test process, empty for each test.
"""

import signal
import sys

# Before anything else is imported. With PYTHONDONTWRITEBYTECODE in the environment each process of the tests would
# compile fusiond again, and each of pytest's Hypothesis too, whose assertions it rewrites. The variable itself stays: a
# test may write a task twice in a second, and the byte code of the first one would pass for that of the second.
sys.dont_write_bytecode = False

import pytest
from hypothesis import settings

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config import model
from tests.support.fusiond_desk import opened
from tests.support.redis_server import RedisServer
from tests.support.worker_program import Place

pytest_plugins = [
    "tests.support.order",
    "tests.support.outbox_tables",
    "tests.support.postgres",
    "tests.support.machine",
    "tests.support.promises",
]

# What a shell starts in the background ignores Ctrl-C, and hands that on to what is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example's time says how busy the machine is, nothing more.
settings.register_profile("search", deadline=None)
# The same examples each time: what fails is due to the change that is tested, and not to chance, and a seeded bug that
# was found is found again. `pytest --hypothesis-profile search` tries others.
settings.register_profile("patient", settings.get_profile("search"), derandomize=True)
settings.load_profile("patient")


def pytest_addoption(parser):
    parser.addoption("--broker", choices=["embedded", "cluster"], default="embedded", help="of tests of whole daemons")


@pytest.fixture(scope="session")
def _redis_server():
    server = RedisServer()
    yield server
    server.remove()


@pytest.fixture
def redis_server(_redis_server):
    """A real server, empty; what a test has killed or set is as it was for the next."""
    if not _redis_server.answers():
        _redis_server.restart()
    with _redis_server.connect() as connection:
        connection.run(plain(as_is, "CONFIG", "SET", "maxmemory", 0))
        connection.run(plain(as_is, "CONFIG", "SET", "maxmemory-policy", "noeviction"))
        connection.run(plain(as_is, "FLUSHALL"))
    return _redis_server


@pytest.fixture
def namespace():
    return "test"


@pytest.fixture
def broker_settings(redis_server, namespace):
    """What a file's `broker:` would say of this server."""
    return model.Broker(url=redis_server.url, namespace=namespace)


@pytest.fixture
def broker(namespace):
    """The verbs."""
    return Verbs(namespace)


@pytest.fixture
def connection(broker_settings, tmp_path):
    with connect(broker_settings, tmp_path) as connection:
        yield connection


@pytest.fixture
def run(connection):
    """Runs a verb: `run(broker.counts("q"))`."""
    return connection.run


@pytest.fixture
def redis(run):
    """A plain command: `redis("LLEN", key)`."""
    return lambda *words: run(plain(as_is, *words))


@pytest.fixture
def place(broker_settings, broker, run):
    """A directory with task code, in which a test starts groups; none of their processes is left at the end."""
    place = Place(broker_settings, broker, run)
    yield place
    place.close()


@pytest.fixture
def desk(broker_settings, tmp_path):
    """Commands against a broker with a catalogue."""
    with opened(broker_settings, tmp_path) as desk:
        yield desk


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    """No test finds the file or the Redis of whoever runs it."""
    for name in (
        "FUSION_URL",
        "FUSION_CONFIG",
        "STATE_DIRECTORY",
        "RUNTIME_DIRECTORY",
        "MAINPID",
        "FUSIOND_LINK",
        "NOTIFY_SOCKET",
    ):
        monkeypatch.delenv(name, raising=False)
