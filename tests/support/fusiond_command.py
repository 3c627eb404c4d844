"""Run `fusiond …` in a test as a shell would."""

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

from prometheus_client.parser import text_string_to_metric_families

from fusiond.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, read as JSON."""
        return json.loads(self.out)


#: root without what lets it pass by the permissions of files
AS_PERSON = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


def fusiond(*words, cwd, given="", as_person=False, **environment) -> Done:
    """Run a command to its end; of FUSION_… variables it sees only those named here."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FUSION")}
    prefix = AS_PERSON if as_person and os.geteuid() == 0 else []
    done = subprocess.run(
        [*prefix, sys.executable, "-P", "-m", "fusiond.cli", *map(str, words)],
        cwd=cwd,
        input=given,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr or "shop.py" in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def fusiond_here(*words, cwd, given="", **environment) -> Done:
    """The same in this process: starting one takes longer than most commands do."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FUSION")}
    out, err, stdin = io.StringIO(), io.StringIO(), io.TextIOWrapper(io.BytesIO(given.encode(errors="surrogateescape")))
    with (
        mock.patch.dict(os.environ, {**inherited, **environment}, clear=True),
        mock.patch.object(sys, "stdin", stdin),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = main(list(map(str, words)))
    return Done(status, out.getvalue(), err.getvalue())


def samples(exposition):
    """Metric → labels' values → value, as Prometheus' own parser reads them."""
    read = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            read.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return read
