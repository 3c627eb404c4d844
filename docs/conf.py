"""
The docs as a site: `make docs` builds it with Sphinx from the pages as they are.

The start page is the project's README, followed by the map of docs/README.md. The map is the navigation, too: each of
its headings is a group, and each link in its tables a page, in that order. A page that is missing there, a link that
leads nowhere, or one to a heading that does not exist ends the build.
"""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_DOCS = Path(__file__).parent
_PAGE = re.compile(r"^\| \[[^]]+\]\(([\w/-]+)\.md\)", re.MULTILINE)

project = "fusiond"
release = version = installed_version(project)
html_title = f"fusiond {release}"
html_theme = "furo"
html_copy_source = html_show_sphinx = False
html_permalinks_icon = "#"
html_static_path = ["_site"]
html_css_files = ["site.css"]
root_doc = "README"
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_site"]
# Of headings in links, as GitHub makes them.
myst_heading_anchors = 4


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _complete)
    app.connect("build-finished", _begin)


def _complete(_app: Sphinx, name: str, source: list[str]) -> None:
    """Give the pages that are maps their navigation, and the first one the project's README."""
    if name.endswith("README"):
        source[0] += _navigation(source[0])
    if name == root_doc:
        source[0] = _introduction() + re.sub(r"^#", "##", source[0], flags=re.MULTILINE)
    if "/" not in name:
        # Files of the project that are not pages.
        source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", source[0])


def _begin(app: Sphinx, error: Exception | None) -> None:
    """A web server shows index.html first."""
    if not error:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def _introduction() -> str:
    """The README up to its own list of pages, with its links as they are from here."""
    text = (_DOCS.parent / "README.md").read_text().partition("\n## The docs\n")[0]
    return text.replace("](docs/", "](") + "\n"


def _navigation(text: str) -> str:
    """The tables' links, as lists of pages that only the side bar shows."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    groups = [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    return "".join(_group(title, _PAGE.findall(body)) for title, body in groups)


def _group(title: str, pages: list[str]) -> str:
    if not pages:
        return ""
    lines = ["", "```{toctree}", ":hidden:", *([f":caption: {title}"] if title else []), "", *pages, "```", ""]
    return "\n".join(lines)
