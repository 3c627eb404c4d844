"""
From each promise of the docs to the tests that show it; a plugin of pytest.

`tests/promises/<page>.yaml` is the table of docs/<page>.md, README.yaml that of README.md, and file.yaml that of all
pages of docs/file/: heading → promises,

    At most once:
      - says: it fails with                     # words of that section, as they stand there
        shown by: [worker/test_once.py, cli/test_job.py::test_a_name]

or, for a heading that promises nothing, the reason: `What was tested: a list of commands`.

While tests run, a line says now and then which promise they show. At the end it is counted how many promises hold:
those of which at least one test has run and none has failed.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
TABLES = TESTS / "promises"
#: share of the tests between two lines that say what is shown
STEP = 0.05


@dataclass(eq=False)
class Promise:
    """One row of a table."""

    page: str
    heading: str
    #: words of the page
    says: str
    #: modules below tests/, or module::test
    tests: tuple[str, ...]
    #: outcome → how many of its tests ended so in this run
    outcomes: Counter = field(default_factory=Counter)

    def __str__(self):
        return f"{self.page} · {self.heading}: {self.says}"


@cache
def promises() -> tuple[Promise, ...]:
    """All rows of all tables, in the order of the files."""
    return tuple(
        Promise(path.stem, heading, row["says"], tuple(row["shown by"]))
        for path in sorted(TABLES.glob("*.yaml"))
        for heading, rows in yaml.safe_load(path.read_text()).items()
        if isinstance(rows, list)
        for row in rows
    )


def page_text(name: str) -> str:
    """What a table is about, without blocks of code: a page, or a folder's pages, whose titles are headings then."""
    folder = ROOT / "docs" / name
    if folder.is_dir():
        text = "\n".join(f"#{page.read_text()}" for page in sorted(folder.glob("*.md")))
    else:
        text = (ROOT / "README.md" if name == "README" else folder.with_suffix(".md")).read_text()
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """Heading → the text below it up to the next heading, without marks of Markdown; the page's title is left out."""
    parts = re.split(r"^##+ (.+)$", page_text(page), flags=re.MULTILINE)[1:]
    return {plain(heading): plain(body) for heading, body in zip(parts[::2], parts[1::2], strict=True)}


def plain(text: str) -> str:
    """Words as a reader sees them: links are their texts, each run of white space is one space."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"[*`]|\\(?=\|)", "", text)).strip()


@cache
def _rows_of(module: str, name: str) -> tuple[Promise, ...]:
    """The promises that a test shows: those that name it first, then those that name its module."""
    wanted = (f"{module}::{name}", module)
    return tuple(each for which in wanted for each in promises() if which in each.tests)


def shown_by(nodeid: str) -> tuple[Promise, ...]:
    """The promises that the test of this node id shows."""
    module, _, name = nodeid.partition("::")
    return _rows_of(module.removeprefix("tests/"), name.partition("[")[0])


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "promises")


class Progress:
    """Counts in the process that prints."""

    def __init__(self, config):
        self._config, self._done, self._all, self._next = config, 0, 0, 0.0

    def pytest_collection_finish(self, session):
        self._all = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        self._all = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        if report.passed or report.skipped:
            # No dot: the lines of pytest_runtest_logreport show how far the run is.
            category = report.outcome if report.skipped or report.when == "call" else ""
            return category, "", ""
        return None

    def pytest_runtest_logreport(self, report):
        rows = shown_by(report.nodeid)
        if report.failed or report.skipped or report.when == "call":
            for each in rows:
                each.outcomes[report.outcome] += 1
        if report.when != "teardown":
            return
        self._done += 1
        if self._all and self._done / self._all >= self._next and rows:
            self._next = self._done / self._all + STEP
            print(f"{self._done / self._all:4.0%}  {rows[0]}"[:118], flush=True)

    def pytest_terminal_summary(self, terminalreporter):
        begun = [each for each in promises() if each.outcomes]
        if not begun:
            return
        broken = [each for each in begun if each.outcomes["failed"]]
        held = [each for each in begun if each.outcomes["passed"] and not each.outcomes["failed"]]
        for each in broken:
            terminalreporter.write_line(f"broken: {each}")
        for each in begun:
            if each not in held and each not in broken:
                terminalreporter.write_line(f"not shown on this machine: {each}")
        pages = len({each.page for each in held})
        terminalreporter.write_line(f"{len(held)} promises of {pages} pages hold, {len(broken)} are broken")
