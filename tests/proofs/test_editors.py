"""The JSON Schema alone, without fusiond: check-jsonschema in CI, yaml-language-server in editors."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.file_reference import SCHEMA
from tests.support.language_server import PACKAGE, LanguageServer, installed

ROOT = Path(__file__).parents[2]
PATH = ROOT / "schemas" / "fusion.schema.json"
GOOD = [
    "version: 1\n",
    "version: 1\nqueues:\n  reports:\ntasks: {a: {run: x.y, queue: reports, timeout: {soft: 5s, hard: 10s}}}\n",
    "version: 1\ncron: {c: {task: a, schedule: '*/5 * * * *'}, d: {task: a, every: 90s, args: [1, {on: [2]}]}}\n",
    "version: 1\nworkers: {m: {queues: {sms: 3}}, n: {queues: [a, b], processes: auto}, o: {queues: '*'}}\n",
    (ROOT / "etc" / "fusion.yaml").read_text(),
    (ROOT / "fusiond" / "starters" / "first" / "fusion.yaml").read_text(),
]
# What is structural: keys, types, patterns, enumerations, bounds.
BAD = [
    "version: 2\n",
    "queues: {}\n",
    "version: 1\ntaks: {}\n",
    "version: 1\ntasks:\n  a: {queue: q}\n",
    "version: 1\ntasks:\n  a:\n    run: send\n",
    "version: 1\ntasks:\n  a:\n    run: x.y\n    timeout: 90\n",
    "version: 1\ntasks:\n  a:\n    run: x.y\n    timeout: 22:30\n",
    "version: 1\nqueues:\n  a:\n    max_length: 0\n",
    "version: 1\nqueues:\n  a b:\n    max_length: 1\n",
    "version: 1\nworkers:\n  m:\n    queues: []\n",
    "version: 1\nworkers:\n  m:\n    umask: 022\n",
    "version: 1\nlogging:\n  level: inf\n",
    "version: 1\ncron:\n  c:\n    task: a\n",
    "version: 1\ncron:\n  c: {task: a, every: 5s, schedule: '@daily'}\n",
    "version: 1\nretry_policies:\n  p:\n    backoff: expo\n",
]


def check_jsonschema(*words):
    command = [sys.executable, "-m", "check_jsonschema", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_check_jsonschema_takes_the_schema():
    """It is a schema of its own draft."""
    assert check_jsonschema("--check-metaschema", PATH).returncode == 0


def test_check_jsonschema_finds_what_is_structural(tmp_path):
    """Every good file passes, every bad one is named."""
    files = {}
    for number, text in enumerate([*GOOD, *BAD]):
        path = tmp_path / f"{number:02}.yaml"
        path.write_text(text)
        files[path] = number < len(GOOD)
    done = check_jsonschema("--schemafile", PATH, "--output-format", "json", *files)
    wrong = {Path(error["filename"]) for error in json.loads(done.stdout)["errors"]}
    assert {path for path, good in files.items() if not good} == wrong, done.stdout


# -- yaml-language-server ---------------------------------------------------------------------------------------------

HEAD = f"# yaml-language-server: $schema={PATH.as_uri()}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    program = installed()
    if program is None:
        pytest.skip(f"{PACKAGE} cannot be installed: there is no npm, or its registry does not answer")
    started = LanguageServer(program, tmp_path_factory.mktemp("editor"))
    yield started
    started.close()


@pytest.mark.parametrize("text", GOOD)
def test_an_editor_underlines_nothing_in_a_good_file(server, text):
    """The first line names the schema; neither the schema's draft nor the file is complained about."""
    assert server.diagnostics(server.open(HEAD + without_modeline(text))) == []


def without_modeline(text):
    return re.sub(r"^# yaml-language-server:.*\n", "\n", text)


def keys():
    """Each key of the file: the names on the way to it, and its own schema."""
    return list(_below(SCHEMA, ()))


def _below(schema, path):
    for key, below in schema.get("properties", {}).items():
        yield (*path, key), below
        yield from _below(below, (*path, key))
    named = schema.get("additionalProperties")
    if isinstance(named, dict) and path[-1:] != ("environment",):
        yield from _below(named, (*path, "x"))


KEYS = keys()


def written(path, value):
    """A block of YAML with the value at the path, and the line and column of its last key, from 1."""
    lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(path)]
    lines[-1] += f" {value}"
    return HEAD + "\n".join(lines) + "\n", len(lines) + 1, 2 * (len(path) - 1) + 1


def test_hover_has_something_to_say_on_each_key(server):
    """The description and the title of the schema, over the key itself."""
    silent = []
    for path, schema in KEYS:
        text, line, column = written(path, json.dumps(schema["examples"][0]))
        shown = server.hover(server.open(text), line, column + 1)
        if plain(schema["description"])[:40] not in plain(shown):
            silent.append((".".join(path), shown))
    assert silent == []


def test_completion_offers_each_key_with_its_description(server):
    """Where a map is empty, all of its keys; each says what it is."""
    offered = {}
    missing = []
    for path, schema in KEYS:
        parents = path[:-1]
        if parents not in offered:
            text = HEAD + "\n".join(f"{'  ' * depth}{key}:" for depth, key in enumerate(parents))
            text += "\n" * bool(parents) + "  " * len(parents) + "\n"
            offered[parents] = server.completion(server.open(text), len(parents) + 2, 2 * len(parents) + 1)
        if plain(schema["description"])[:40] not in plain(offered[parents].get(path[-1], "")):
            missing.append(".".join(path))
    assert missing == []


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("workers", "x", "processes"), "many", "write a number from 1 up, auto, or a map such as {min: 2, max: 16}"),
        (
            ("workers", "x", "queues"),
            "sms",
            'write a list of queues, a map of queues and weights, or "*" for all queues',
        ),
        (("workers", "x", "max_memory"), "5", "write a size with its unit, such as 512MiB or 2GB"),
        (("cron", "x"), "{task: a, every: 5}", "write a duration with its unit, such as 90s, 10m or 1h30m"),
        (("tasks", "x"), "{run: send}", "write the path of a function, such as package.module.function"),
    ],
)
def test_a_mistake_is_one_sentence(server, path, value, sentence):
    """What to write, in place of a regular expression or a list of types."""
    text, _, _ = written(path, value)
    found = server.diagnostics(server.open(f"{text}version: 1\n"))
    assert [message for _, _, message in found] == [sentence]


def test_no_pattern_is_shown_to_a_person():
    """Each pattern of the schema comes with a sentence; only what no text fails has none."""

    def without(schema):
        if isinstance(schema, dict):
            # A key of the file may have that name, too.
            if isinstance(schema.get("pattern"), str) and "patternErrorMessage" not in schema:
                yield schema["pattern"]
            schema = list(schema.values())
        if isinstance(schema, list):
            for each in schema:
                yield from without(each)

    assert set(without(SCHEMA)) <= {r"^[^\u0000]*$"}


def plain(text):
    """Without what Markdown escapes."""
    return re.sub(r"[\\\s]|&nbsp;", "", text)
