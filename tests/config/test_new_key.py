"""A new key of the file is written in one place: the model. In a copy of the project, a key is added there alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: as they would be added to WorkerGroup: one that running groups take, one that replaces them
NEW_KEYS = """
    #: A child that had no job for so long ends. null: it stays.
    idle_timeout: Annotated[Duration | None, Key("Idle time", "5m", in_place=True)] = None
    #: How far other processes go first.
    niceness: Annotated[int, between(0, 19), Key("Niceness", 5)] = 0
"""
BEHIND = "max_memory: Annotated[int | None, "
FILE = "version: 1\ndefaults: {workers: {idle_timeout: 90m}}\nworkers: {main: {queues: [default]}}\n"
SEEN = """\
import json
from fusiond.config.accepted import explain
from fusiond.config.accepted.plan import compare
from fusiond.config.load import load
from fusiond.config.model import Config

def loaded(text):
    return load("fusion.yaml", environ={}, data=text.encode(), elsewhere=True)

was, other, nice, wrong = (loaded(text) for text in json.loads(input()))
value = next(each for each in explain.group(was.tree.root, was.config, "main") if each.key == "idle_timeout")
print(json.dumps({
    "read": was.config.workers["main"].idle_timeout,
    "default": Config.from_json(was.config.to_json()).workers["main"].niceness,
    "explained": [value.shown, value.set_by],
    "plans": [str(compare(was.config, each.config)) for each in (other, nice)],
    "problems": [problem.sentence for problem in wrong.problems if problem.is_error],
}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project with two more keys, and what is made from the model made anew."""
    path = tmp_path_factory.mktemp("project")
    for part in ("fusiond", "schemas"):
        shutil.copytree(ROOT / part, path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("docs/file.md", "tests/file_schema.py", "tests/file_reference.py"):
        (path / part).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / part, path / part)
    model = path / "fusiond" / "config" / "model" / "worker_groups.py"
    lines = model.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines, 1) if BEHIND in line)
    model.write_text("".join([*lines[:at], NEW_KEYS, *lines[at:]]))
    run(path, "-m", "tests.file_reference")
    return path


def run(path, *words, said=""):
    """What a Python in the copy prints."""
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=path, input=said, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_editors_and_docs_have_it(copy):
    """The schema, of a group and of its defaults; the table of the page."""
    schema = json.loads((copy / "schemas" / "fusion.schema.json").read_text())["properties"]
    groups = schema["workers"]["additionalProperties"], schema["defaults"]["properties"]["workers"]
    for described in (group["properties"]["idle_timeout"] for group in groups):
        assert described["type"] == ["null", "string"]
        assert described["title"] == "Idle time"
        assert described["description"] == "A child that had no job for so long ends. null: it stays."
        assert described["errorMessage"].startswith("write a duration with its unit")
        assert (described["default"], described["examples"]) == (None, ["5m"])
    page = (copy / "docs" / "file.md").read_text()
    assert "| `idle_timeout` | `null` | `5m` | in place | A child that had no job for so long ends." in page
    assert "| `niceness` | `0` | `5` | replaced | How far other processes go first. |" in page


def test_it_is_checked_read_explained_and_compared(copy):
    """Its unit, its defaults, the line that says it, what a change does, and a sentence where it is wrong."""
    texts = [FILE, FILE.replace("90m", "2h"), FILE.replace("90m", "90m, niceness: 3"), FILE.replace("90m", "90")]
    seen = json.loads(
        run(copy, "-c", SEEN, said=json.dumps([*texts[:3], texts[3].replace("90}", "90, niceness: 20}")]))
    )
    assert seen == {
        "read": 5400.0,
        "default": 0,
        "explained": ["1h30m", "defaults.workers.idle_timeout"],
        "plans": [
            "1 group changed in place (main, because idle_timeout changed)",
            "1 group replaced (main, because niceness changed)",
        ],
        "problems": [
            "defaults.workers.idle_timeout: 90 has no unit; write 90s for seconds; also ms, m, h, d",
            "defaults.workers.niceness: 20 is above 19; write 19 or less",
        ],
    }
