import contextlib
import io
import re
import shlex
import subprocess
import sys

import pytest

from fusiond.cli import parser
from tests.docs.blocks import FENCED, PAGES, ROOT, parameters
from tests.support.fusiond_command import fusiond_here

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("block", parameters("yaml"))
def test_each_yaml_block_is_a_file_that_validates(block, tmp_path):
    """What the docs show can be copied and used: no error, no warning."""
    (tmp_path / "fusion.yaml").write_text(block.text)
    problems = fusiond_here("validate", "fusion.yaml", "--json", cwd=tmp_path).json
    # Who runs the tests, which programs are here, and which credentials systemd has given, says nothing about the docs.
    of_here = [each for each in problems if each["code"] in ("runs-as-root", "missing-program")]
    of_here += [each for each in problems if "/run/credentials/" in each["message"]]
    assert [str(problem) for problem in problems if problem not in of_here] == []


@pytest.mark.parametrize("block", parameters("sh"))
def test_each_command_line_of_the_docs_parses(block):
    """No command or option is documented that does not exist."""
    for number, line in block.commands:
        if not line.startswith("fusiond "):
            continue
        words = shlex.split(re.split(" [<>] ", line)[0], comments=True)[1:]
        complaint = io.StringIO()
        with contextlib.redirect_stderr(complaint), contextlib.suppress(SystemExit):
            assert callable(parser().parse_args(words).handler)
        assert not complaint.getvalue(), f"{number}: {line}\n{complaint.getvalue()}"


def test_each_command_of_the_example_names_its_file():
    """The commands in the comments of etc/fusion.yaml work beside `make run`, from the project's directory."""
    found = re.findall(r"#\s+fusiond (?!-h)(.*?)(?:  |$)", (ROOT / "etc" / "fusion.yaml").read_text(), re.MULTILINE)
    assert len(found) >= 4
    for line in found:
        assert parser().parse_args(shlex.split(line)).config == "etc/fusion.yaml", line


def test_each_command_has_its_lines_in_the_docs():
    """docs/commands.md leaves no command out."""
    page = (ROOT / "docs" / "commands.md").read_text()
    missing = [command for command in commands(parser()) if not re.search(rf"^fusiond {command}\b", page, re.MULTILINE)]
    assert not missing


def commands(top, before=""):
    """Every command, `job list` and the like included."""
    for action in top._subparsers._group_actions if top._subparsers else []:
        for name, below in action.choices.items():
            deeper = list(commands(below, f"{before}{name} "))
            yield from deeper or [f"{before}{name}"]


def test_the_map_shows_each_page():
    """No page of the docs is to be found by chance only."""
    text = (ROOT / "docs" / "README.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in text + "README.md"] == []


@pytest.mark.proof
def test_the_site_is_built_and_needs_no_other_host(tmp_path):
    """Each page is in its navigation, each link leads somewhere, and a browser loads nothing from elsewhere."""
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "-j1", "docs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "index.html").read_text()
    assert "A job runner that you describe" in html
    assert 'href="proofs/results.html"' in html
    for page in tmp_path.rglob("*.html"):
        assert not re.search(r"""<(script|img|link)\b[^>]*\b(src|href)=["']?(https?:)?//""", page.read_text()), page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """A link to a file of the project is a file of the project."""
    targets = [target for target in _LINK.findall(page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_a_heading_lead_to_one(page):
    """A heading that was renamed is renamed in the links to it, too."""
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text())
    assert [f"{to}#{name}" for to, name in links if name not in headings(page.parent / to if to else page)] == []


def headings(page):
    """The names by which a page's headings are linked to, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
