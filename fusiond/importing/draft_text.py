"""
A draft as the text of a fusion.yaml.

A short entry is one line, `name: {key: value}`; a long one, or one with a `${VAR}`, which works outside of braces only,
has a line for each key. What the loader refused is there as a comment, behind the reason.
"""

import json
import re
from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Final

from fusiond.config.problems import mask
from fusiond.config.yaml.scalars import OLD_BOOLEANS, resolve
from fusiond.importing.draft import SECTIONS, Draft, DraftEntry, Reference

_WIDTH: Final = 118
#: a text that needs no quotes, unless it is a word such as `true`
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+-]*(@[A-Za-z0-9_.]+)?|[0-9]+[smhd]")
#: what JSON leaves as it is, and YAML does not take, or takes for the end of a line
_ESCAPED: Final = re.compile("[\x7f-\xa0\xad\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")

#: line of the text, from 1 → section and name of the entry that it belongs to
Lines = dict[int, tuple[str, str]]


def text_of(draft: Draft, command: str) -> tuple[str, Lines]:
    """The text, and which of its lines belong to which entry. `command`: what made it."""
    lines, where = [*_head(draft, command), "version: 1"], Lines()
    for key, entry in (("broker", draft.broker), ("defaults", _defaults(draft))):
        if entry.values:
            lines += ["", *_comments(entry.comments), f"{key}:", *_pairs(entry.values, "  ")]
    for section in SECTIONS:
        entries = draft.sections[section]
        if not entries:
            continue
        alive = any(not entry.refused for entry in entries.values())
        lines += ["", f"{section}:" if alive else f"{section}: {{}}"]
        for name, entry in entries.items():
            made = _entry(name, entry)
            where |= dict.fromkeys(range(len(lines) + 1, len(lines) + len(made) + 1), (section, name))
            lines += made
    return "\n".join(lines) + "\n", where


def _defaults(draft: Draft) -> DraftEntry:
    parts = {"tasks": draft.of_tasks, "workers": draft.of_workers}
    values = {name: entry.values for name, entry in parts.items() if entry.values}
    return DraftEntry(values, [*draft.of_tasks.comments, *draft.of_workers.comments])


def _head(draft: Draft, command: str) -> Iterator[str]:
    yield from _comments([f"Made by `{command}`. Read it, change what you like, then: fusiond validate, fusiond run."])
    more = [f"and {draft.not_said:,} more"] if draft.not_said else []
    parts = {"Works in another way here": draft.remarks, "Was not carried over": [*draft.left_out, *more]}
    for title, sentences in parts.items():
        if sentences:
            yield "#"
            yield from _comments([f"{title}:"])
            for sentence in sentences:
                yield from _comments([sentence], bullet="- ")


def _entry(name: str, entry: DraftEntry) -> list[str]:
    line = f"  {scalar(name)}: {flow(entry.values)}"
    is_short = len(line) <= _WIDTH and not _refers(entry.values)
    made = [line] if is_short else [f"  {scalar(name)}:", *_pairs(entry.values, "    ")]
    comments = _comments(entry.comments, "  ")
    if entry.refused:
        return [*_comments([f"left out: {entry.refused}"], "  "), *comments, *(f"  # {line[2:]}" for line in made)]
    return [*comments, *made]


def _pairs(values: dict[str, Any], indent: str) -> list[str]:
    """A line for each key; deeper ones for what is long."""
    lines = []
    for key, value in values.items():
        line = f"{indent}{scalar(key)}: {flow(value)}"
        if isinstance(value, dict) and value and (len(line) > _WIDTH or _refers(value)):
            lines += [f"{indent}{scalar(key)}:", *_pairs(value, indent + "  ")]
        elif isinstance(value, list) and len(line) > _WIDTH and all(isinstance(item, list | str) for item in value):
            lines += [f"{indent}{scalar(key)}:", *(f"{indent}  - {flow(item)}" for item in value)]
        else:
            lines.append(line)
    return lines


def _refers(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_refers, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Reference)


def _comments(sentences: list[str], indent: str = "", bullet: str = "") -> list[str]:
    """Sentences as comments; what they quote of the input cannot end a line, and has no password of a URL."""
    lines = []
    for sentence in sentences:
        safe = "".join(char if char.isprintable() else " " for char in mask(sentence))
        parts = wrap(safe, _WIDTH - len(indent) - 4, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"{indent}# {(bullet if not n else ' ' * len(bullet))}{part}" for n, part in enumerate(parts)]
    return lines


def flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: Any) -> str:
    """A value as the loader reads it back, the same in YAML 1.1 and 1.2."""
    if isinstance(value, Reference):
        return str(value)
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value not in OLD_BOOLEANS and resolve(value) == value:
        return value
    # `$$` is a dollar; a dollar that begins no reference stays one by itself, and so does `$$(`
    text = re.sub(r"\$\$(?!\()|\$(?=\{)", lambda dollars: 2 * dollars[0], value)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
