"""
The environment of the peers, of its own: below the cache directory, nothing of the machine is changed.

1. PyPI     a virtual environment
2. Debian   ruby-sidekiq and what it needs: downloaded by apt-get, unpacked, not installed
3. npm      bullmq, graphile-worker; its PostgreSQL is the machine's

What cannot be installed is left out, and a sentence says why.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers import postgres
from benchmarks.peers.runners import NPM, REQUIREMENTS, Runner
from fusiond import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fusiond-benchmarks"
#: the virtual environment of the runners in Python
PYTHON = ROOT / "python"
_RUBY, _NODE = ROOT / "ruby", ROOT / "node"


class Missing(Exception):
    """A peer cannot be installed here; the sentence says why."""


def install(runner: Runner) -> str:
    """Its version, once it is installed. Raises Missing."""
    if runner.language == "fusiond":
        return __version__
    installed = {"python": pypi, "ruby": _sidekiq, "node": _npm}[runner.language]
    if not runner.postgres:
        return installed(runner.package)
    place = postgres.programs()
    if place is None:
        raise Missing("there is no PostgreSQL on this machine; `apt-get install postgresql` installs Debian's")
    return f"{installed(runner.package)} with PostgreSQL {postgres.version(place)}"


def command(runner: Runner, words: Iterable[str]) -> list[str]:
    """A command line of the runner's, with the program's path."""
    name, *rest = words
    if runner.language == "ruby":
        # What `bin/sidekiq` of the gem does, with the load path in place of installed gems.
        return [str(_RUBY / "usr/bin/ruby"), "-e", _START_SIDEKIQ, "--", *rest]
    if runner.language == "node":
        return [name, *rest]
    return [str(PYTHON / "bin" / name), *rest]


def producer(runner: Runner, app: Path) -> list[str]:
    """The command line of the program that enqueues."""
    interpreter = {
        "fusiond": [sys.executable],
        "python": [str(PYTHON / "bin" / "python")],
        "ruby": [str(_RUBY / "usr/bin/ruby")],
        "node": ["node"],
    }[runner.language]
    return [*interpreter, str(app)]


def variables(runner: Runner) -> dict[str, str]:
    """What its processes need in their environment."""
    if runner.language == "ruby":
        return _ruby_paths()
    return {"NODE_PATH": str(_NODE / "node_modules")} if runner.language == "node" else {}


_START_SIDEKIQ = """
require "sidekiq/cli"
cli = Sidekiq::CLI.instance
cli.parse
cli.run
"""


def pypi(package: str) -> str:
    """The version of a runner from PyPI, once it is in the virtual environment. Raises Missing."""
    if not (PYTHON / "bin/pip").exists():
        _run([sys.executable, "-m", "venv", str(PYTHON)], "a virtual environment cannot be made")
    ask = [str(PYTHON / "bin/python"), "-c", f"import importlib.metadata as m; print(m.version({package!r}))"]
    if subprocess.run(ask, capture_output=True, check=False).returncode:
        pip = [str(PYTHON / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", REQUIREMENTS[package]]
        _run(pip, f"pip cannot install {package}")
    return _run(ask, f"{package} is not there").strip()


def _npm(package: str) -> str:
    if shutil.which("npm") is None:
        raise Missing("there is no npm on this machine")
    manifest = _NODE / "node_modules" / package / "package.json"
    if not manifest.exists():
        _NODE.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--silent", "--no-fund", "--prefix", str(_NODE), *NPM[package]]
        _run(words, f"npm cannot install {package}")
    return str(json.loads(manifest.read_text())["version"])


def _sidekiq(_package: str) -> str:
    if not (_RUBY / "unpacked").exists():
        _unpack(_RUBY, "Sidekiq", lambda: _needed("ruby-sidekiq"))
    words = [str(_RUBY / "usr/bin/ruby"), "-e", 'require "sidekiq"; puts Sidekiq::VERSION']
    return _run(words, "Debian's ruby does not start from where it was unpacked", _ruby_paths()).strip()


def _unpack(place: Path, name: str, packages: Callable[[], list[str]]) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Missing(f"there is no apt-get on this machine, and {name} is taken from Debian's packages")
    archive = place / "archive"
    archive.mkdir(parents=True, exist_ok=True)
    _run(["apt-get", "download", "-q", *packages()], f"apt-get cannot download {name}", cwd=archive)
    for package in archive.glob("*.deb"):
        _run(["dpkg", "-x", str(package), str(place)], f"{package.name} cannot be unpacked")
    shutil.rmtree(archive)
    (place / "unpacked").touch()


def _needed(package: str) -> list[str]:
    """The package and all of Ruby that it needs: what the C library's world offers is taken from the machine."""
    words = ["apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts",
             "--no-breaks", "--no-replaces", "--no-enhances", package]  # fmt: skip
    known = _run(words, "apt-cache does not know ruby-sidekiq").splitlines()
    names = {line for line in known if line and line[0].isalpha()}
    return sorted(name for name in names if name.split(":")[0].startswith(("ruby", "libruby", "rake")))


def _ruby_paths() -> dict[str, str]:
    libraries = next(iter(_RUBY.glob("usr/lib/*-linux-gnu*")), _RUBY / "usr/lib" / platform.machine())
    versions = [path.name for path in (_RUBY / "usr/lib/ruby").glob("[0-9]*")]
    paths = [_RUBY / "usr/lib/ruby/vendor_ruby", *_RUBY.glob("usr/share/rubygems-integration/all/gems/*/lib")]
    for version in versions:
        paths += [_RUBY / "usr/lib/ruby" / version, libraries / "ruby" / version]
        paths += [libraries / "ruby/vendor_ruby" / version]
    return {"LD_LIBRARY_PATH": str(libraries), "RUBYLIB": os.pathsep.join(map(str, paths))}


def _run(words: list[str], failure: str, more: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Its output. Raises Missing with the sentence and the last line of what it said."""
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, **(more or {})}, cwd=cwd
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Missing(f"{failure}: {said[-1] if said else f'it ended with {done.returncode}'}")
    return done.stdout
