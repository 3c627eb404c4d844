"""Each `fusiond …` of the docs is run, page by page, on a daemon that has what it names."""

import re

import pytest

from tests.docs.blocks import BLOCKS
from tests.docs.desk import Desk

#: what is not typed here, and why
LEFT = {
    r"fusiond (run|dev)\b": "is a daemon; test_pages.py starts it",
    r"fusiond top\b|--watch|-f$|--follow": "does not end; has tests of its own",
    r"--dev\b": "is for the daemon of `fusiond dev`",
    r"--instance\b": "is for an instance of systemd's",
    r"init --systemd /": "writes into the root directory",
    r"enqueue notify\b": "calls a host that does not exist",
    r"cron run clear_sessions": "is of the Django example",
    r"^if ! fusiond reload": "is of the deploy script, which tests/scenarios/test_releases.py runs",
    r"FUSIOND_HOOK|\\$\\$|crontab -l": "is for a shell",
}
#: the pages that a newcomer reads
FIRST = ("README.md", "getting-started.md")
#: what does not end with 0, and why
ENDS = {
    r"rollback$": (1, "only code was loaded since"),
    r"rollback 12": (1, "there is no generation 12"),
    r"queue purge reports$": (2, "asks on a terminal"),
    r"--strict": (1, "warns of groups that run as root and end within a second"),
}


def typed(page):
    """The lines of a page that are commands of fusiond's, with their numbers."""
    blocks = [block for block in BLOCKS if block.page == page and block.language == "sh"]
    return [
        (number, line) for block in blocks for number, line in block.commands if re.search(r"\bfusiond [a-z]", line)
    ]


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.close()


def wrong(page, desk):
    """What the page's commands do that they should not."""
    for number, line in typed(page):
        if any(re.search(pattern, line) for pattern in LEFT):
            continue
        done = desk.type(line)
        wanted = next((status for pattern, (status, _) in ENDS.items() if re.search(pattern, line)), 0)
        if done.status != wanted:
            yield f"{page}:{number}: {line}\n  {done.status} {done.out[-300:]} {done.err[-600:]}"


def test_the_commands_of_a_newcomer_do_what_the_pages_say(desk):
    """Those of the first page and of Getting started; each ends with 0, unless it cannot."""
    assert [what for page in FIRST for what in wrong(page, desk)] == []


@pytest.mark.proof
@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS if typed(block.page)} - set(FIRST)))
def test_the_commands_of_a_page_do_what_they_say(page, desk):
    """Each ends with 0, unless it cannot."""
    assert list(wrong(page, desk)) == []
