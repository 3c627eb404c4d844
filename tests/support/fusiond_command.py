"""Run `fusiond …` in a test as a shell would."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any
from unittest import mock

from prometheus_client.parser import text_string_to_metric_families

from fusiond.cli import main
from tests.support.warm import warm


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


#: variables that an interpreter reads at its start begin so
AT_START = ("PYTHON", "LC_", "LANG", "TZ")


def fusiond(*words, cwd, given="", as_person=False, **environment) -> Done:
    """Run a command to its end, as a process; of FUSION_… variables it sees only those named here."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FUSION")}
    words, environment = list(map(str, words)), {**inherited, **environment}
    own = environment.items() - inherited.items()
    if as_person or any(name.startswith(AT_START) for name, _ in own):
        done = _run(words, cwd, given, environment, AS_PERSON if as_person and os.geteuid() == 0 else [])
    else:
        done = _forked(words, cwd, given, environment)
    assert "Traceback" not in done.err or "shop.py" in done.err, done.err
    return done


def _run(words, cwd, given, environment, prefix):
    """By a new interpreter."""
    done = subprocess.run(
        [*prefix, sys.executable, "-P", "-m", "fusiond.cli", *words],
        cwd=cwd,
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        timeout=60,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _forked(words, cwd, given, environment):
    """By a fork of a process that has loaded its modules."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        stdin, out, err = streams
        stdin.write(given.encode(errors="surrogateescape"))
        stdin.seek(0)
        process = warm().start(
            "fusiond.cli:main", ["fusiond", *words],
            environment=environment, directory=cwd, out=out, err=err, given=stdin,
        )  # fmt: skip
        try:
            status = process.wait(60)
        finally:
            process.kill()
        return Done(status, *(_text(stream) for stream in (out, err)))


def _text(stream):
    """As `subprocess` reads a pipe with text=True."""
    stream.seek(0)
    return stream.read().decode(errors="surrogateescape").replace("\r\n", "\n").replace("\r", "\n")


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
