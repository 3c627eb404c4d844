"""
Tests that were run, in the formats of `fusiond test --format`.

    text    for people: a line for each test, and what does not hold, with its place
    github  the same, with commands of GitHub Actions, which shows each broken promise beside its line
    tap     the Test Anything Protocol, version 14
    junit   the XML of JUnit, which GitLab, Jenkins and others read
    json    for programs: what does not hold, and each figure of the simulation
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from fusiond.config.lint import reports
from fusiond.config.problems import Problem, visible
from fusiond.simulation.promises import FileTest
from fusiond.simulation.variants import NO_POOLS


def as_text(
    found: Sequence[FileTest],
    paint: Callable[[str, str], str] = lambda text, _: text,
    show: Callable[[Sequence[Problem]], str] | None = None,
) -> str:
    """`paint`: as in `config/lint/reports.py`; `show`: what prints problems, if not as text."""
    show = show or partial(reports.as_text, paint=paint)
    # It is of the file, and tests that hold would be taken to hold with pools.
    lines = [f"note: {NO_POOLS}"] if any(NO_POOLS in each.result["notes"] for each in found) else []
    for each in found:
        word = paint("failed", "red") if each.problems else paint("ok", "green") + " " * 4
        notes = [f"note: {note}" for note in each.result["notes"] if each.problems and note != NO_POOLS]
        lines += [f"{word}  {visible(each.name)}", *filter(None, [show(each.problems)]), *notes]
    return "\n".join([*lines, f"{len(found)} run, {sum(bool(each.problems) for each in found)} failed"])


def as_tap(found: Sequence[FileTest]) -> str:
    """What does not hold stands in comments."""
    lines = ["TAP version 14", f"1..{len(found)}"]
    for number, each in enumerate(found, 1):
        name = visible(each.name).replace("\\", "\\\\").replace("#", "\\#")
        lines.append(f"{'not ok' if each.problems else 'ok'} {number} - {name}")
        lines += [f"# {problem.place}: {problem.sentence}" for problem in each.problems]
    return "\n".join(lines)


def as_junit(found: Sequence[FileTest]) -> str:
    """One suite."""
    failed = str(sum(bool(each.problems) for each in found))
    suite = Element("testsuite", name="fusiond test", tests=str(len(found)), failures=failed)
    for each in found:
        file, line = each.place.source.name, str(each.place.line)
        case = SubElement(suite, "testcase", name=visible(each.name), classname=file, file=file, line=line)
        if each.problems:
            failure = SubElement(case, "failure", message=each.problems[0].sentence)
            failure.text = "\n".join(f"{problem.place}: {problem.sentence}" for problem in each.problems)
    indent(suite)
    return tostring(suite, encoding="unicode", xml_declaration=True)


def as_json(found: Sequence[FileTest]) -> str:
    """A list of objects."""
    tests = [
        {"name": each.name, "problems": [problem.to_dict() for problem in each.problems], "result": each.result}
        for each in found
    ]
    return json.dumps(tests, ensure_ascii=False, indent=2)


#: format → what prints all tests in it
DOCUMENTS: Mapping[str, Callable[[Sequence[FileTest]], str]] = {
    "text": as_text,
    "github": partial(as_text, show=reports.as_github),
    "tap": as_tap,
    "junit": as_junit,
    "json": as_json,
}
