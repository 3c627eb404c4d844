"""
The fixtures for pytest; docs/testing.md shows them in use. pytest loads this file in each run, so it loads little.

    fusiond_jobs           records what the test enqueues
    fusiond_daemon         a real daemon, with empty queues
    fusiond_file           the fusion.yaml; a project may replace it
    fusiond_workers        keys of worker groups for that daemon; a project may replace them
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pytest

if TYPE_CHECKING:
    from fusiond.config.model import Config
    from fusiond.testing.embedded_daemon import EmbeddedDaemon
    from fusiond.testing.recorder import Recorder

_Scope = Literal["session", "package", "module", "class", "function"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings of a project."""
    parser.addini("fusiond_file", "the fusion.yaml, from the root directory of the tests; else $FUSION_CONFIG")
    parser.addini("fusiond_daemon_scope", "how long one daemon runs: session (default), module or class")


def _scope(fixture_name: str, config: pytest.Config) -> _Scope:  # noqa: ARG001 - pytest gives both by name
    said = config.getini("fusiond_daemon_scope") or "session"
    for scope in get_args(_Scope):
        if said == scope:
            return scope  # type: ignore[no-any-return]
    raise pytest.UsageError(f"fusiond_daemon_scope = {said}: write session, module or class")


@pytest.fixture(scope="session")
def fusiond_file(pytestconfig: pytest.Config) -> Path:
    """The fusion.yaml under test: that of the settings, else $FUSION_CONFIG, else the one in the root directory."""
    said = pytestconfig.getini("fusiond_file") or os.environ.get("FUSION_CONFIG") or "fusion.yaml"
    return pytestconfig.rootpath / said


@pytest.fixture(scope="session")
def fusiond_workers() -> Mapping[str, Any]:
    """Keys of worker groups that hold in tests for each group, in place of what the file says."""
    return {}


@pytest.fixture(scope="session")
def _fusiond_config(fusiond_file: Path) -> Config:
    from fusiond.testing.file_under_test import read

    return read(fusiond_file)


@pytest.fixture
def fusiond_jobs(_fusiond_config: Config) -> Iterator[Recorder]:
    """Record what the test enqueues."""
    from fusiond.testing.recorder import recorded

    with recorded(_fusiond_config) as jobs:
        yield jobs


@pytest.fixture(scope=_scope)
def _fusiond_process(fusiond_file: Path, fusiond_workers: Mapping[str, Any]) -> Iterator[EmbeddedDaemon]:
    from fusiond.testing.embedded_daemon import embedded

    with embedded(fusiond_file, workers=fusiond_workers) as daemon:
        yield daemon


@pytest.fixture
def fusiond_daemon(_fusiond_process: EmbeddedDaemon) -> Iterator[EmbeddedDaemon]:
    """A daemon with empty queues, to which the test's clients are led."""
    with _fusiond_process.in_use():
        yield _fusiond_process
