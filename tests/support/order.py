"""
Which tests run, in which order, and for how long; a plugin of pytest.

1. mark     what lies in tests/proofs as `proof`; single tests elsewhere carry that mark themselves
2. shuffle  modules, and the tests of each: a test must not need what another one has left behind
3. end      with `--minutes N`, the tests that have not begun by then are skipped; the next seed brings others

The seed of the order is printed. `--seed N` repeats it.
"""

import itertools
import random
import time
from pathlib import Path

import pytest

PROOFS = Path(__file__).parents[1] / "proofs"
_BEGAN = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--minutes", type=float, help="begin no test later than this")
    parser.addoption("--seed", type=int, help="of the order of the tests, and of which seeded bugs the proofs hunt")


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        config.option.seed = config.workerinput["seed"]
    elif config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(10**6)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """All workers of pytest-xdist shuffle alike."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_sessionstart(session):
    # Not by pytest_report_header, which `-q` switches off.
    if not hasattr(session.config, "workerinput"):
        print(f"order of the tests: --seed {session.config.option.seed}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.path.is_relative_to(PROOFS):
            item.add_marker(pytest.mark.proof)
    rand = random.Random(config.option.seed)
    # A module stays together, since its tests share fixtures.
    modules = [list(tests) for _, tests in itertools.groupby(items, lambda item: item.path)]
    rand.shuffle(modules)
    for tests in modules:
        rand.shuffle(tests)
    items[:] = itertools.chain(*modules)


def pytest_runtest_setup(item):
    minutes = item.config.option.minutes
    if minutes is not None and time.monotonic() - _BEGAN > 60 * minutes:
        pytest.skip("left out: the minutes are over")
