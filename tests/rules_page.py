"""docs/rules.md as the code gives it: `python -m tests.rules_page` writes it."""

from pathlib import Path

from tests.rules import PARTS, RULES

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"
_HEAD = f"""\
# Every problem by its code

`fusiond validate` knows {len(RULES)} kinds of problem. Errors make a file unusable; warnings fail
`validate --strict` only. What a machine lacks is a warning where a file is checked, and an error where it is about to
run. A code never changes its meaning. How to have a file checked before it is merged: [CI](ci.md).

This page is made of the table in tests/rules: `python -m tests.rules_page`. The tests run each example: the bad one
gives its code at the text between « and », the good one does not.
"""
_NEEDS = {"imports": "with `--imports`", "root": "by root", "person": "by others than root", "": ""}


def page():
    """The whole page."""
    parts = [_HEAD]
    for part, rules in PARTS.items():
        rows = "\n".join(map(_row, sorted(rules, key=lambda rule: rule.code)))
        parts.append(f"## {part}\n\n| code | severity | the file has | bad | good |\n|---|---|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _row(rule):
    bad = rule.shown or _code(rule.bad, rule.files)
    return f"| `{rule.code}` | {_severity(rule)} | {_cell(rule.sentence)} | {bad} | {_code(rule.good)} |"


def _severity(rule):
    run = "an error at `run`" if rule.at_run else rule.unless
    return "; ".join(part for part in (rule.severity, run, _NEEDS[rule.needs]) if part)


def _code(text, files=()):
    """One line of code for each line, those of small files after their name."""
    lines = [f"`{_cell(line)}`" for line in text.replace("\t", "→").splitlines()]
    for name in files:
        lines += [f"{name}: " + " ".join(f"`{_cell(line)}`" for line in files[name].splitlines()) or name]
    return "<br>".join(lines)


def _cell(text):
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"{PAGE}: {len(RULES)} rules")
