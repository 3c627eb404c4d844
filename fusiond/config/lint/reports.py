"""
Problems in the formats of `fusiond validate --format`, each sorted by place.

    text    for people: each problem, its line and a caret
    json    for programs: an array of objects
    sarif   for code scanning: SARIF 2.1.0; columns count code points
    github  commands of GitHub Actions, which shows each problem beside its line in the pull request
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote

from fusiond.config.problems import Problem, columns, mask, visible

#: columns of a source line that `text` shows
_EXCERPT: Final = 160
_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_IN_MESSAGES: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES: Final = {**_IN_MESSAGES, **str.maketrans({":": "%3A", ",": "%2C"})}


def as_text(problems: Sequence[Problem], paint: Callable[[str, str], str] = lambda text, _: text) -> str:
    """
    For people.

    Args:
        problems: in any order.
        paint: (text, severity or `dim`) → the text in that colour.
    """
    return "\n".join(line for problem in sorted(problems) for line in _lines(problem, paint))


def as_json(problems: Sequence[Problem]) -> str:
    """For programs."""
    return json.dumps([problem.to_dict() for problem in sorted(problems)], ensure_ascii=False, indent=2)


def as_sarif(problems: Sequence[Problem]) -> str:
    """One run of this version of fusiond; its head lists each rule that the file breaks."""
    from fusiond import __version__

    codes = sorted({problem.code for problem in problems})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": code.replace("-", " ").capitalize()},
            "help": {"text": f"docs/rules.md of fusiond explains {code}, with a bad and a good example."},
        }
        for code in codes
    ]
    run = {
        "tool": {"driver": {"name": "fusiond", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(problem, codes.index(problem.code)) for problem in sorted(problems)],
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2)


def as_github(problems: Sequence[Problem]) -> str:
    """One command on each line. Files are named from $GITHUB_WORKSPACE, the directory of the checkout."""
    workspace = os.environ.get("GITHUB_WORKSPACE", "")
    return "\n".join(_command(problem, workspace) for problem in sorted(problems))


#: format → what prints all problems in it, as one document
DOCUMENTS: Final = {"json": as_json, "sarif": as_sarif, "github": as_github}


# -- text -------------------------------------------------------------------------------------------------------------


def _lines(problem: Problem, paint: Callable[[str, str], str]) -> list[str]:
    severity, code = paint(problem.severity, problem.severity), paint(f"[{problem.code}]", "dim")
    excerpt = _excerpt(problem, paint) if problem.line and problem.excerpt.strip() else ()
    detail = [f"      | {visible(line)}" for line in mask(problem.detail).splitlines()]
    return [f"{problem.place}: {severity}: {problem.sentence}   {code}", *excerpt, *detail]


def _excerpt(problem: Problem, paint: Callable[[str, str], str]) -> tuple[str, str]:
    """The source line, and the caret beneath."""
    before, line = mask(problem.excerpt[: problem.column - 1]), mask(problem.excerpt)
    # A long line is cut so that the mistake is in view; the caret moves with it.
    cut = max(0, len(before) + problem.width - _EXCERPT) if len(line) > _EXCERPT else 0
    cut = min(cut, len(before))
    shown, before = line[cut : cut + _EXCERPT], before[cut:]
    width = max(1, min(problem.width, len(shown) - len(before)))
    gutter = f"{problem.line:>5} | "
    caret = "^" * max(1, columns(shown[len(before) : len(before) + width]))
    return gutter + visible(shown), " " * (len(gutter) + columns(before)) + paint(caret, problem.severity)


# -- sarif ------------------------------------------------------------------------------------------------------------


def _sarif_result(problem: Problem, rule: int) -> dict[str, Any]:
    shown = problem.to_dict()
    name, path = problem.file, quote(os.fsencode(problem.file))
    # A relative path stays relative: the report is read in another checkout.
    uri = f"file://{path}" if name.startswith("/") else path.removeprefix("./")
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if problem.line:
        place["region"] = {
            "startLine": problem.line,
            "startColumn": problem.column,
            "endColumn": problem.column + problem.width,
            "snippet": {"text": shown["excerpt"]},
        }
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": problem.severity,
        "message": {"text": "\n".join(filter(None, (problem.sentence, shown["detail"])))},
        "locations": [{"physicalLocation": place}],
    }


# -- github -----------------------------------------------------------------------------------------------------------


def _command(problem: Problem, workspace: str) -> str:
    absolute = PurePath(os.path.abspath(problem.file))  # noqa: PTH100 - resolve() would follow symlinks
    inside = workspace and absolute.is_relative_to(workspace)
    properties = {"file": str(absolute.relative_to(workspace)) if inside else problem.file, "title": problem.code}
    if problem.line:
        line, end = str(problem.line), str(problem.column + problem.width)
        properties |= {"line": line, "endLine": line, "col": str(problem.column), "endColumn": end}
    listed = ",".join(f"{key}={value.translate(_IN_PROPERTIES)}" for key, value in properties.items())
    detail = "\n".join(visible(line) for line in mask(problem.detail).splitlines())
    message = "\n".join(filter(None, (problem.sentence, detail)))
    return f"::{problem.severity} {listed}::{message.translate(_IN_MESSAGES)}"
