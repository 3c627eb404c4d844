"""`fusiond validate`, `schema` and `init`, as a person runs them; and how quick they are."""

import json
import time
from pathlib import Path

import pytest

from fusiond.config.load import load
from tests.support.fusiond_command import fusiond_here

ROOT = Path(__file__).parents[2]
GOOD = "version: 1\n"
WARNS = "version: 1\nqueues: {q: {}}\n"
BAD = "version: 1\nqueus: {}\n"


@pytest.mark.parametrize(
    ("text", "status", "strict"), [(GOOD, 0, 0), (WARNS, 0, 1), (BAD, 1, 1), ("a: [", 1, 1), ("", 1, 1)]
)
def test_the_exit_status_tells(tmp_path, text, status, strict):
    """0 usable, 1 problems; warnings count under --strict."""
    (tmp_path / "fusion.yaml").write_text(text)
    assert fusiond_here("validate", cwd=tmp_path).status == status
    assert fusiond_here("validate", "--strict", cwd=tmp_path).status == strict


def test_a_file_that_is_not_there_is_status_2(tmp_path):
    """One sentence, no traceback, whether it was named or looked for."""
    named = fusiond_here("validate", "no.yaml", cwd=tmp_path)
    assert (named.status, named.err) == (2, "")
    assert "no.yaml: error: the file cannot be read" in named.out
    assert fusiond_here("validate", cwd=tmp_path, FUSION_CONFIG="").status in (0, 1, 2)


def test_several_files_and_standard_input(tmp_path):
    """Each is a file of its own; one bad one fails the run, and each problem names its file."""
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(BAD)
    done = fusiond_here("validate", "a.yaml", "b.yaml", "-", cwd=tmp_path, given=WARNS)
    assert done.status == 1
    assert "a.yaml: ok: 0 tasks, 1 queue, 0 cron entries, 0 worker groups" in done.out
    assert "b.yaml:2:1: error: unknown key 'queus'; did you mean 'queues'?   [unknown-key]" in done.out
    assert "<stdin>:2:10: warning:" in done.out


def test_json_is_for_programs(tmp_path):
    """An array of all problems, whatever the number of files."""
    done = fusiond_here("validate", "--format", "json", "-", cwd=tmp_path, given=BAD)
    (problem,) = json.loads(done.out)
    assert (problem["file"], problem["line"], problem["column"], problem["code"]) == ("<stdin>", 2, 1, "unknown-key")
    assert json.loads(fusiond_here("validate", "--json", "-", cwd=tmp_path, given=GOOD).out) == []


def test_schema_prints_the_schema(tmp_path):
    """From anywhere, byte by byte what is in schemas/."""
    assert fusiond_here("schema", cwd=tmp_path).out == (ROOT / "schemas" / "fusion.schema.json").read_text()


def test_a_file_of_10_000_lines_loads():
    """1,400 tasks, 200 queues, 350 schedules, within seconds: the time grows with the lines, not with their square."""
    lines = ["version: 1", "queues:", *(f"  q{n}: {{max_length: 100}}" for n in range(200)), "tasks:"]
    for n in range(1400):
        lines += [
            f"  t{n}:",
            f"    run: shop.m{n}.f",
            f"    queue: q{n % 200}",
            "    priority: high",
            "    timeout: 10s",
        ]
        lines += [f"    description: does {n}"]
    lines += ["cron:"]
    for n in range(350):
        lines += [
            f"  c{n}:",
            f"    task: t{n}",
            f"    schedule: '{n % 60} {n % 24} * * *'",
            "    timezone: Europe/Berlin",
        ]
    lines += ["workers: {all: {queues: '*'}}", ""]
    assert len(lines) > 10_000
    start = time.process_time()
    loaded = load("fusion.yaml", environ={}, data="\n".join(lines).encode())
    assert time.process_time() - start < 20
    assert loaded.config is not None
    assert len(loaded.config.tasks) == 1400
