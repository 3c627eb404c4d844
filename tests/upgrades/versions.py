"""
What is run: another version of fusiond, installed beside the checkout.

1. wheel    that is given, or of a revision, by `git archive`
2. install  into a virtual environment of its own, with its dependencies
3. change   for the test suite: a copy of the checkout that does what a newer version of the same layout may do
"""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.package import SHORT_LEASES, Edit, copy

ROOT = Path(__file__).parent.parent.parent
#: how the changed copy calls itself
NEXT = "99.0.0"
#: another text of a script; and a word or a key more in a job's text, a daemon's record, the catalogue, a decided tick,
#: a run of a flow and its shape
NEWER = (
    Edit("broker/lua/claim.lua", "-- claim(queue,", "-- newer than\n-- claim(queue,"),
    Edit("broker/lua/shared/job.lua", "(h.others or ''), h.task", "(h.others or ' Vnewer'), h.task"),
    Edit("broker/hosts/daemons.py", '" ".join(map(str, self))', '" ".join([*map(str, self), "newer"])'),
    Edit("broker/hosts/daemons.py", '"digests": digests or {}}', '"digests": digests or {}, "newer": 1}'),
    Edit("schedule/publishing.py", '| ({"follow": follow}', '| {"newer": 1} | ({"follow": follow}'),
    Edit("broker/ticks.py", '"args": self.args.decode()}', '"args": self.args.decode(), "newer": 1}'),
    Edit("flows/progress.py", "dataclasses.asdict(self), sep", '{**dataclasses.asdict(self), "newer": 1}, sep'),
    Edit("flows/shapes.py", "dataclasses.asdict(self), ensure", '{**dataclasses.asdict(self), "newer": 1}, ensure'),
)


@dataclass(frozen=True)
class Version:
    """One that can be run."""

    name: str
    python: str = sys.executable
    #: variables without which `python` runs another one
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def command(self):
        """Of its command line."""
        return (self.python, "-P", "-m", "fusiond.cli")

    def layout(self):
        """The number of the layout that it knows."""
        words = [self.python, "-P", "-c", "from fusiond.broker.keys import LAYOUT; print(LAYOUT)"]
        environment = {**os.environ, **self.environment}
        return int(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)


def last_release():
    """The last tag; where there is none, the commit before the newest one that changed the package."""
    tag = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return tag.stdout.strip() or _git("log", "-1", "--format=%H~1", "--", "fusiond").strip()


def wheel(given, directory):
    """The path of the wheel that is given, or that is built of a revision."""
    if given.endswith(".whl"):
        return Path(given).absolute()
    source, built = directory / "source", directory / "wheel"
    source.mkdir(parents=True)
    archive = directory / "source.tar"
    _git("archive", "--output", str(archive), given)
    subprocess.run(["tar", "-xf", archive, "-C", source], check=True)
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", built, source]
    subprocess.run(words, check=True)
    return next(built.glob("*.whl"))


def install(path, directory):
    """The wheel with its dependencies, in a virtual environment."""
    venv.create(directory, with_pip=False, symlinks=True)
    python = directory / "bin" / "python"
    words = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", f"{path}[embedded]"]
    subprocess.run(words, check=True)
    return str(python)


def copied(directory, name, edits=()):
    """A copy of the checkout, whose jobs are soon another dispatcher's when theirs is killed."""
    version = NEXT if edits else "0.0.1"
    code = copy(directory, (SHORT_LEASES, *edits))
    information = directory / f"fusiond-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fusiond\nVersion: {version}\n")
    return Version(name, environment={"PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": ""})


def _git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
