"""
Problems as SARIF 2.1.0, the format of code scanning: GitHub's, and that of most editors.

A report lists at its head each rule that the file breaks. Columns count code points.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.config.problems import Problem

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(problems: Sequence[Problem], version: str) -> str:
    """
    One run of one tool.

    Args:
        problems: in any order.
        version: of fusiond.
    """
    codes = sorted({problem.code for problem in problems})
    numbers = {code: number for number, code in enumerate(codes)}
    driver = {"name": "fusiond", "version": version, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, numbers) for problem in sorted(problems)],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, ensure_ascii=False, indent=2)


def _rule(code: str) -> dict[str, Any]:
    """A code is named so that its words are the short text."""
    return {
        "id": code,
        "shortDescription": {"text": code.replace("-", " ").capitalize()},
        "help": {"text": f"docs/rules.md of fusiond explains {code}, with a bad and a good example."},
    }


def _result(problem: Problem, numbers: dict[str, int]) -> dict[str, Any]:
    shown = problem.to_dict()
    parts = [problem.sentence, *([shown["detail"]] if problem.detail else [])]
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(problem.file)}}
    if problem.line:
        place["region"] = {
            "startLine": problem.line,
            "startColumn": problem.column,
            "endColumn": problem.column + problem.width,
            "snippet": {"text": shown["excerpt"]},
        }
    return {
        "ruleId": problem.code,
        "ruleIndex": numbers[problem.code],
        "level": problem.severity,
        "message": {"text": "\n".join(parts)},
        "locations": [{"physicalLocation": place}],
    }


def _uri(name: str) -> str:
    """A path as a URI: relative ones stay so, since a report is read in another checkout."""
    path = os.fsencode(name)
    return f"file://{quote(path)}" if name.startswith("/") else quote(path).removeprefix("./")
