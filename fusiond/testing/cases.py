"""
For unittest, and test runners that are made of it, such as Django's.

    class OrderTests(RecordsJobs, TestCase):
        def test_an_order_is_charged(self):
            self.client.post("/orders")
            self.jobs.assert_enqueued("charge", 7)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar
from unittest import TestCase

from fusiond.config.model import Config
from fusiond.testing.embedded_daemon import EmbeddedDaemon, embedded
from fusiond.testing.file_under_test import read
from fusiond.testing.recorder import Recorder, recorded


class RecordsJobs(TestCase):
    """Each test records what it enqueues, in `self.jobs`."""

    #: the fusion.yaml; None: $FUSION_CONFIG, else ./fusion.yaml
    fusiond_file: ClassVar[str | os.PathLike[str] | None] = None
    jobs: Recorder
    _fusiond_config: ClassVar[Config]

    @classmethod
    def setUpClass(cls) -> None:
        """Read the file once."""
        super().setUpClass()
        cls._fusiond_config = read(cls.fusiond_file)

    def setUp(self) -> None:
        """Begin to record."""
        super().setUp()
        self.jobs = self.enterContext(recorded(self._fusiond_config))


class UsesDaemon(TestCase):
    """One daemon for the tests of the class, in `self.daemon`; its queues are empty for each test."""

    #: the fusion.yaml; None: $FUSION_CONFIG, else ./fusion.yaml
    fusiond_file: ClassVar[str | os.PathLike[str] | None] = None
    #: keys of worker groups that hold in place of the file's
    fusiond_workers: ClassVar[Mapping[str, Any]] = {}
    daemon: ClassVar[EmbeddedDaemon]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the daemon."""
        super().setUpClass()
        cls.daemon = cls.enterClassContext(embedded(cls.fusiond_file, workers=cls.fusiond_workers))

    def setUp(self) -> None:
        """Lead clients to it, until the test has ended."""
        super().setUp()
        self.enterContext(self.daemon.in_use())
