"""
`python -m tests.upgrades [--from REV] [--to REV]`: an older and a newer version under load, there and back.

`--from` and `--to` are revisions, or paths of wheels. Without `--from` it is the last tag; where there is none, the
commit before the newest one that changed the package. Without `--to` it is the last commit. Status 1 where a job or a
tick is not accounted for.
"""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from tests.upgrades.play import in_place, side_by_side
from tests.upgrades.versions import Version, install, last_release, wheel

#: s; longer than a lease, and than the supervisor waits for a sign of life
FROZEN = 17.0


def main():
    """Build, install, carry out, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.upgrades", description=__doc__.split("\n\n")[1])
    parser.add_argument("--from", dest="old", help="the older one")
    parser.add_argument("--to", dest="new", default="HEAD", help="the newer one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fusiond-upgrades-") as directory:
        versions = []
        for name, what in (("old", given.old or last_release()), ("new", given.new)):
            built = wheel(what, Path(directory) / name)
            versions.append(Version(name, install(built, Path(directory) / name / "venv")))
            print(f"{name}: {what}, {built.name}, layout {versions[-1].layout()}", flush=True)
        if len({version.layout() for version in versions}) > 1:
            print("the two have different layouts: they never run on one Redis", file=sys.stderr)
            return 2
        return 1 if sum([_failed(story, versions) for story in (side_by_side, in_place)]) else 0


def _failed(story, versions):
    with contextlib.ExitStack() as stack:
        play = story(stack, *versions, frozen=FROZEN)
        wrong = play.judge()
        print(f"{story.__name__}: {play.counts()}; {len(wrong)} wrong", flush=True)
    for each in wrong[:20]:
        print(f"  ✗ {each}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
