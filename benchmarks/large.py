"""
How fast a large application's forked jobs are, with huge pages and without them.

1. install  Django, SQLAlchemy and pandas into an environment of their own below the cache directory
2. drain    jobs that do nothing, in pairs: as it is, and with huge pages forbidden by prctl, in alternating order

`python -m benchmarks.large`, after `make bench-large` has installed what it needs.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.daemon import QUEUE, Daemon
from benchmarks.drain import run

_APP = Path(__file__).parent / "large_app"
_ROOT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fusiond-benchmarks" / "large"
_REQUIREMENTS = ("django==5.2.*", "sqlalchemy==2.*", "pandas==3.*")
_GROUP = "  main: {{queues: [{queue}], processes: 8, isolation: fork, directory: {app}, python: {python}}}\n"
# From <linux/prctl.h>; handed on to every program that is started from here.
_PR_SET_THP_DISABLE = 41


def main() -> None:
    """Install, measure, and print a line for each pair and the median of their ratios."""
    parser = argparse.ArgumentParser(prog="benchmarks.large", description="Forked jobs of a large application.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1000)
    options = parser.parse_args()
    python = _install()
    ratios = []
    for pair in range(options.pairs):
        order = (True, False) if pair % 2 else (False, True)
        found = {huge: _drain(python, options.jobs, huge=huge) for huge in order}
        (speed, cost), (slow, dear) = found[True], found[False]
        ratios.append(dear / cost)
        print(
            f"huge pages {speed:.0f} jobs/s, CPU {cost:.2f} ms a job; none {slow:.0f}, {dear:.2f} ms:"
            f" CPU {ratios[-1]:.2f} ×, jobs/s {speed / slow:.2f} ×",
            flush=True,
        )
    print(f"CPU: median {statistics.median(ratios):.2f} ×, from {min(ratios):.2f} to {max(ratios):.2f}")


def _install() -> Path:
    if not (_ROOT / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", _ROOT], check=True)
        pip = [str(_ROOT / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *_REQUIREMENTS]
        subprocess.run(pip, check=True)
        (_ROOT / "installed").touch()
    return _ROOT / "bin" / "python"


def _drain(python: Path, jobs: int, *, huge: bool) -> tuple[float, float]:
    """Jobs a second, and ms of CPU for each."""
    if ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, int(not huge), 0, 0, 0):
        raise SystemExit("this kernel cannot forbid huge pages")
    with Daemon(_GROUP.format(queue=QUEUE, app=_APP, python=python)) as daemon:
        seconds, cpu, _ = run(daemon, jobs)
    return jobs / seconds, cpu / jobs * 1e3


if __name__ == "__main__":
    main()
