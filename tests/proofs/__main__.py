"""
`python -m tests.proofs`: every proof at its full length, one after the other, for about five hours.

Each part is a command of its own. Its outcome is written to docs/proofs/full.md as soon as it ends, with the commit
that it ran on, so a run that is interrupted loses only the part that it was in: `--missing` runs the parts that have
not passed yet, on whatever commit, and `--only` runs a part again.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "proofs" / "full.md"
MODULE = (sys.executable, "-m")
#: part → the words behind `python -m`; the quick ones first
PARTS = {
    "slices": "pytest -m proof",
    "seeded bugs in Lua": "pytest -m proof tests/proofs/test_seeded_lua.py tests/proofs/test_queue_model.py",
    "model": "tests.model",
    "upgrades": "tests.upgrades",
    "Redis": "tests.chaos.redis",
    "Cluster": "tests.chaos.cluster",
    "scenarios over a Cluster": "pytest tests/scenarios --broker cluster",
    "hosts": "tests.chaos.hosts",
    "resources": "tests.chaos.resources",
    "Sentinel": "tests.chaos.sentinel",
    "recovery": "tests.chaos.recovery",
    "fuzzed files": "tests.fuzz.config_file",
    "soak": "tests.soak",
    "chaos": "tests.chaos --full",
    "seeded bugs": "tests.chaos --bugs",
    "outboxes": "tests.chaos.outboxes --full",
    "seeded bugs of outboxes": "tests.chaos.outboxes --bugs",
    "failpoints": "tests.chaos.matrix --times 10 --beside 2",
    "fuzzing": "tests.fuzz",
}
HEAD = """# The proofs at full length

`make proofs-full` writes this page: each proof as [Proofs](README.md) describes it, the commit that it ran on, and the
last line that it printed.

| proof | command | commit | minutes | outcome | its last line |
|---|---|---|--:|---|---|
"""


class Row(NamedTuple):
    """A line of the table."""

    part: str
    commit: str
    minutes: float
    outcome: str
    said: str

    def __str__(self):
        words = (
            self.part,
            f"`python -m {PARTS[self.part]}`",
            self.commit,
            f"{self.minutes:.1f}",
            self.outcome,
            self.said,
        )
        return f"| {' | '.join(words)} |"


def rows():
    """Part → its row of the file."""
    found = {}
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else ():
        part, _, commit, minutes, outcome, said = [*line.strip("| ").split(" | ", 5), *[""] * 6][:6]
        if part in PARTS:
            found[part] = Row(part, commit, float(minutes), outcome, said)
    return found


def write(known):
    """All rows, in the order of the parts."""
    RESULTS.write_text(HEAD + "".join(f"{known[part]}\n" for part in PARTS if part in known))


def carry_out(part, commit):
    """Run it; what it prints is shown as it comes."""
    print(f"\n== {part}: python -m {PARTS[part]}", flush=True)
    began, last = time.monotonic(), ""
    with subprocess.Popen([*MODULE, *PARTS[part].split()], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip(" =\n") or last
    outcome = "passed" if process.returncode == 0 else f"**status {process.returncode}**"
    said = re.sub(r"[|`]", "", last)[:100]
    return Row(part, commit, (time.monotonic() - began) / 60, outcome, said)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.proofs", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--missing", action="store_true", help="only what has not passed yet")
    given = parser.parse_args()
    words = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    parts = given.only or list(PARTS)
    if given.missing:
        parts = [part for part in parts if (row := rows().get(part)) is None or row.outcome != "passed"]
    ended = []
    for part in parts:
        ended.append(carry_out(part, commit))
        write({**rows(), part: ended[-1]})
    failed = [row.part for row in ended if row.outcome != "passed"]
    print(f"\n{len(ended) - len(failed)} of {len(ended)} proofs passed", *failed, sep="\n  failed: ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
