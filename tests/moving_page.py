"""The tables of docs/moving.md, each under the heading of its runner: `python -m tests.moving_page` writes them."""

import re
from pathlib import Path

from fusiond.config.lint.other_runners import WORDS

PAGE = Path(__file__).parent.parent / "docs" / "moving.md"


def page(text):
    """The page with the tables as the code has them. Raises ValueError if a heading has no table."""
    for runner, words in WORDS.items():
        heading = rf"(^## {re.escape(runner)}\n(?:(?!## ).*\n)*?)(?:^\|.*\n)+"
        rows = "".join(f"| {word.theirs} | {word.ours} |\n" for word in words)
        table = f"| {runner} | fusiond |\n|---|---|\n{rows}"
        text, found = re.subn(heading, lambda at, table=table: at[1] + table, text, count=1, flags=re.MULTILINE)
        if not found:
            raise ValueError(f"docs/moving.md has no table under {runner}")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(PAGE)
