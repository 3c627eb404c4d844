"""
Files that nobody meant, by the thousand: `python -m tests.fuzz.config_file --files 20000`.

1. make   a file: real ones mutated in their bytes, lines and words, or generated along the schema by hypothesis
2. read   it as `fusiond validate` does, and print what was found in every format
3. hold   the result to what is promised: no exception, a Config exactly where there is no error, places that exist,
          2 s of processor time a file, 200 MB of memory for a process that reads it

The same seed makes the same mutated files. What breaks a promise is kept in a file whose name is printed.
"""

import argparse
import ctypes
import functools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import yaml

from fusiond.config.lint.reports import as_github, as_json, as_sarif, as_text
from fusiond.config.load import load
from fusiond.config.model import Config
from tests.fuzz import mutate
from tests.rules import RULES
from tests.support.pace import pace

ROOT = Path(__file__).parents[2]
MOST_SECONDS, MOST_MEGABYTES = 2.0, 200
#: of all files, those that hypothesis generates
_GENERATED = 0.25
_WORDS = [
    b"*", b"*a", b"&a ", b"<<: ", b"${", b"${X}", b"${X:-", b"$$", b"!!python/object:os.system ", b"!x ", b"\t",
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x1b[31m", b"- ", b": ", b":", b"{", b"}", b"[", b"]", b"'",
    b'"', b"\n", b"\r\n", b"|\n", b">-\n", b"? ", b"#", b"---\n", b"...\n", b"%YAML 1.1\n", b"on", b"yes", b"~",
    b"null", b"010", b"0x1F", b"1e3", b"1e999", b".inf", b"22:30", b"2026-01-01", b"1_000", b"-1", b"0",
    b"99999999999999999999", b"90s", b"0s", b"512MiB", b"25%", b"@daily", b'"*/5 * * * *"', b'"0 0 30 2 *"',
    b'"0 0 L * *"', b'"0 0 * * 5#3"', b'"60 24 32 13 8"', b"Europe/Berlin", b"../etc/passwd", b"/dev/zero",
    b"redis://u:p@[::1", b"unix://", b"include: [fusion.yaml]\n", b"default", b"standard", b"tasks", b"workers",
    b"cron", b"queues", b"high", b"x.y", b"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87", b"\xf0\x9f\x98\x80",
]  # fmt: skip


def seeds():
    """Real files: the example, the starter, the docs' blocks, the rules' examples, and one of 10,000 lines."""
    texts = [
        (ROOT / "etc" / "fusion.yaml").read_text(),
        (ROOT / "fusiond" / "starters" / "first" / "fusion.yaml").read_text(),
    ]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        texts += re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    for rule in RULES.values():
        texts += ["version: 1\n" + each for each in (rule.bad, rule.good) if isinstance(each, str)]
    large = "version: 1\ntasks:\n" + "".join(
        f"  t{n}:\n    run: shop.m{n}.f\n    timeout: 10s\n    priority: high\n    description: does {n}\n"
        for n in range(2000)
    )
    return [text.replace("«", "").replace("»", "").encode() for text in texts], large.encode() + b"workers: {m: {}}\n"


def mutated(rand, small, large):
    """One file: a seed with a few changes, most of them small ones."""
    data = large if rand.random() < 0.01 else rand.choice(small)
    changes = [*mutate.CHANGES, *[_replace_word] * 3, _indent, _swap_lines, functools.partial(_splice, small)]
    return mutate.mutated(rand, data, _WORDS, changes, (1, 1, 2, 3, 5, 8, 30))


def _replace_word(rand, data, words):
    found = list(re.finditer(rb"[^\s:,\[\]{}]+", data))
    if not found:
        return data
    word = rand.choice(found)
    return data[: word.start()] + rand.choice(words) + data[word.end() :]


def _splice(small, rand, data, _words):
    other = rand.choice(small)
    return data[: mutate.at(rand, data)] + other[mutate.at(rand, other) :]


def _indent(rand, data, _words):
    lines = data.split(b"\n")
    at = rand.randrange(len(lines))
    lines[at] = rand.choice((b" ", b"  ", b"    ", b"\t")) + lines[at] if rand.random() < 0.5 else lines[at].lstrip()
    return b"\n".join(lines)


def _swap_lines(rand, data, _words):
    lines = data.split(b"\n")
    one, two = rand.randrange(len(lines)), rand.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return b"\n".join(lines)


def examine(data, directory):
    """Read one file and hold it to the promises. Raises what it raises; returns the seconds and the codes."""
    began = time.process_time()
    path = directory / "fusion.yaml"
    loaded = load(path, environ={"X": "y"}, data=data)
    problems = loaded.problems
    as_text(problems), as_json(problems), as_github(problems), json.loads(as_sarif(problems))
    took = time.process_time() - began
    assert (loaded.config is None) == any(problem.is_error for problem in problems), "a Config beside an error"
    if loaded.config is not None and len(data) < 100_000:
        assert Config.from_json(loaded.config.to_json()) == loaded.config, "the snapshot is another Config"
    lines = len(re.split("\r\n|[\n\r\x85\u2028\u2029]", data.decode("utf-8-sig", errors="replace")))
    for problem in problems:
        assert problem.code in RULES, f"{problem.code} is in no table"
        assert problem.message, "a problem without a sentence"
        if problem.file == str(path):
            assert 0 <= problem.line <= lines, f"line {problem.line} of {lines}"
            assert not problem.excerpt or problem.column <= len(problem.excerpt) + 1, "a column beyond the line"
    assert took < MOST_SECONDS or took < MOST_SECONDS * pace(), f"{took:.2f} s"
    return took, {problem.code for problem in problems}


def memory(*, reset=False):
    """MB of this process: now, and at most since the last reset."""
    if reset:
        # What earlier files left to the allocator would hide what this one needs.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    now, most = (int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1024 for name in ("VmRSS", "VmHWM"))
    return now, most


class Shard:
    """A part of the files, in this process."""

    def __init__(self, count, seed, directory):
        self.count, self.seed, self.directory = count, seed, directory
        self.slowest, self.codes, self.failures = 0.0, set(), []
        #: MB: of a process that has loaded all this, and the most that one file added to it
        self.base, self.added = memory()[0], 0.0

    def run(self):
        """All files of the shard; returns what a report is made of."""
        generated = int(self.count * _GENERATED)
        rand, (small, large) = random.Random(self.seed), seeds()
        for _ in range(self.count - generated):
            self._try(mutated(rand, small, large))
        self._generate(rand, generated)
        peak = self.base + self.added
        return {
            "files": self.count,
            "slowest": self.slowest,
            "peak": peak,
            "codes": sorted(self.codes),
            "failures": self.failures,
        }

    def _generate(self, rand, count):
        from tests.fuzz.trees import FILES

        for content in mutate.examples(FILES, rand, max(1, count)):
            self._try(json.dumps(content).encode())
            self._try(yaml.safe_dump(content, allow_unicode=True).encode("utf-8", "surrogatepass"))

    def _try(self, data):
        before, _ = memory(reset=True)
        try:
            took, codes = examine(data, self.directory)
        except Exception:  # the point of it all: whatever it is, it is kept
            with tempfile.NamedTemporaryFile(prefix="fusiond-fuzz-", suffix=".yaml", delete=False) as kept:
                kept.write(data)
            self.failures.append(f"{kept.name}\n{traceback.format_exc(limit=-3)}")
        else:
            self.slowest = max(self.slowest, took)
            self.added = max(self.added, memory()[1] - before)
            self.codes |= codes


def main(argv=None):
    """Run the shards side by side and print what came of them; status 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.config_file", description=__doc__.split("\n\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shard", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.shard:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(Shard(options.files, options.seed, Path(directory)).run()))
        return 0
    return _report(_all(options))


def _all(options):
    count = options.files // options.jobs
    command = [sys.executable, "-m", "tests.fuzz.config_file", "--shard", "--files", str(count), "--seed"]
    shards = [
        subprocess.Popen(
            [*command, str(options.seed * 1000 + n)], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ
        )
        for n in range(options.jobs)
    ]
    return [json.loads(shard.communicate()[0]) for shard in shards]


def _report(shards):
    codes = {code for shard in shards for code in shard["codes"]}
    failures = [failure for shard in shards for failure in shard["failures"]]
    slowest, peak = (max(shard[key] for shard in shards) for key in ("slowest", "peak"))
    print(f"{sum(shard['files'] for shard in shards):,} files, {len(codes)} of {len(RULES)} rules met")
    print(f"slowest {slowest:.2f} s of {MOST_SECONDS:g}, peak {peak:.0f} MB of {MOST_MEGABYTES}")
    print(f"{len(failures)} broken promises")
    print("\n".join(failures[:10]))
    return 1 if failures or peak > MOST_MEGABYTES else 0


if __name__ == "__main__":
    sys.exit(main())
