"""The code blocks of README.md, CHANGELOG.md and docs/, each with its place."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """What stands between two fences. `language`: empty where the page names none."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def commands(self):
        """Its lines as (number, command), those that go on in the next one joined, without prompts and comments."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        lines = enumerate(joined.splitlines(), self.line + 1)
        return [(number, line) for number, line in lines if line.strip() and not line.startswith("#")]


def _all():
    for page in PAGES:
        text = page.read_text()
        name = str(page.relative_to(ROOT)).removeprefix("docs/")
        for match in FENCED.finditer(text):
            yield Block(name, text.count("\n", 0, match.start()) + 1, match[1], match[2])


BLOCKS = list(_all())


def parameters(*languages):
    """The blocks of these languages, as pytest's parameters."""
    return [pytest.param(each, id=str(each)) for each in BLOCKS if each.language in languages]
