"""The tables in tests/promises: each promise of the docs has a test, and each test of `make test` shows a promise."""

import ast
import re

import pytest
import yaml

from tests.support.promises import TABLES, TESTS, page_text, plain, promises, sections

#: pages of which each heading is in the table
WHOLE = ("README", "reliability", "reload", "security", "file")
#: those of which each bullet and each row of a section that promises something is, too; not each key of the file
LISTED = WHOLE[:-1]
PAGES = sorted(path.stem for path in TABLES.glob("*.yaml"))
#: tests of the house itself: of its own rules, and of what the tests are made of
OF_THE_HOUSE = {"test_house.py", "test_promises.py"}


def functions(module):
    """The tests of a module; those that are marked as proofs apart."""
    tree = ast.parse((TESTS / module).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    whole = any(isinstance(node, ast.Assign) and "mark.proof" in ast.unparse(node) for node in tree.body)
    proofs = {node.name for node in found if whole or any("mark.proof" in ast.unparse(d) for d in node.decorator_list)}
    return {node.name for node in found} - proofs, proofs


@pytest.mark.parametrize("page", PAGES)
def test_each_row_quotes_its_page_and_names_tests_that_exist(page):
    """A promise that is reworded, and a test that is renamed, is missed here."""
    texts = sections(page)
    for promise in (each for each in promises() if each.page == page):
        assert promise.heading in texts, promise
        assert plain(promise.says) in texts[promise.heading], promise
        assert promise.tests, promise
        for test in promise.tests:
            module, _, name = test.partition("::")
            assert (TESTS / module).is_file(), (promise, test)
            assert not name or name in set().union(*functions(module)), (promise, test)


@pytest.mark.parametrize("page", WHOLE)
def test_each_promise_of_the_page_has_a_row(page):
    """Whatever these pages promise is shown by a test; a heading without a promise says why."""
    table = yaml.safe_load((TABLES / f"{page}.yaml").read_text())
    assert set(sections(page)) - set(table) == set()
    for heading, items in listed(page).items() if page in LISTED else ():
        said = [plain(row["says"]) for row in table[heading]] if isinstance(table[heading], list) else None
        for item in items if said is not None else ():
            assert any(words in item for words in said), f"{page} · {heading}: no row of the table has: {item}"


def listed(page):
    """Heading → its bullets and the rows of its tables, as plain text."""
    parts = re.split(r"^##+ (.+)$", page_text(page), flags=re.MULTILINE)[1:]
    found = {}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        rows = [
            line for line in re.findall(r"^\|.*\|$", body, flags=re.MULTILINE) if not re.match(r"^\|[ |:-]+\|$", line)
        ]
        heads = re.findall(r"^(\|.*\|)\n\|[ |:-]+\|$", body, flags=re.MULTILINE)
        bullets = re.findall(r"^- (?:.+\n?)(?:^ {2}.+\n?)*", body, flags=re.MULTILINE)
        found[plain(heading)] = [plain(each) for each in (*[row for row in rows if row not in heads], *bullets)]
    return found


def test_each_test_of_the_first_tier_shows_a_promise():
    """A test that shows a user nothing is a proof, or goes."""
    named = {test for promise in promises() for test in promise.tests}
    idle = []
    for path in sorted(TESTS.rglob("test_*.py")):
        module = str(path.relative_to(TESTS))
        if module in named | OF_THE_HOUSE or module.startswith("proofs/"):
            continue
        idle += [f"{module}::{name}" for name in sorted(functions(module)[0]) if f"{module}::{name}" not in named]
    assert idle == []
