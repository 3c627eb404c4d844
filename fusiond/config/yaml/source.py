"""
YAML text → nodes, each with its line and column.

1. parse    libyaml's events, those of PyYAML's safe loader: no tag ever makes an object
2. compose  mappings, lists and scalars, with bounds against hostile text at each event
3. resolve  `${VAR}` first, then plain scalars by the core schema of YAML 1.2

A text that cannot be parsed gives one problem; everything else (a duplicate key, an unset variable) is collected.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node, Place, Scalar, SourceFile
from fusiond.config.yaml.scalars import resolve
from fusiond.config.yaml.syntax import explain
from fusiond.config.yaml.variables import BadReference, expand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BYTES: Final = 2**20
MAX_DEPTH: Final = 50
#: nodes of a file and its includes together, each alias counted with all that is beneath its anchor
MAX_NODES: Final = 50_000
MAX_ALIASES: Final = 1000

#: of byte order, which some editors begin a file with
_MARK: Final = "\ufeff"
# libyaml counts these as line breaks, so the excerpts must too.
_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_CONTROL: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: events whose marks span their own text, and nothing beneath
_OF_TEXT: Final = (yaml.ScalarEvent, yaml.AliasEvent, yaml.DocumentStartEvent)
#: libyaml where PyYAML was built with it: ten times quicker
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class RefusedText(Exception):  # noqa: N818
    """The text is no YAML, or hostile: its one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


def source_of(name: str, directory: Path, data: bytes) -> SourceFile:
    """The bytes of a file as text. Raises RefusedText where they are too many, or not UTF-8."""
    if len(data) > MAX_BYTES:
        raise RefusedText(
            _whole(name, "too-large", f"the file is larger than {MAX_BYTES >> 20} MiB", "split it with include:")
        )
    try:
        # Not utf-8-sig, which counts its errors from behind the mark.
        text = data.decode().removeprefix(_MARK)
    except UnicodeDecodeError as error:
        raise RefusedText(_not_utf8(SourceFile(name, directory, "", []), data, error.start)) from error
    return SourceFile(name, directory, text, _BREAK.split(text))


def compose(source: SourceFile, environ: Mapping[str, str]) -> tuple[Node, list[Problem]]:
    """The root of a file and the problems that did not stop it from being read. Raises RefusedText."""
    control = _CONTROL.search(source.text)
    if control:
        raise RefusedText(_control_character(source, control.start()))
    composer = _Composer(source, environ)
    try:
        loader = _Loader(source.text)
        try:
            return composer.compose(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise RefusedText(_syntax_error(source, error, composer)) from error
    except yaml.YAMLError as error:
        raise RefusedText(_whole(source.name, "yaml-syntax", f"the file is not YAML: {error}", "")) from error


class _Composer:
    """Events in, one root node out. Holds the open mappings and lists on a stack: hostile depth costs no recursion."""

    def __init__(self, source: SourceFile, environ: Mapping[str, str]) -> None:
        self._source, self._environ = source, environ
        self._problems: list[Problem] = []
        self._anchors: dict[str, Node | None] = {}
        self._aliases = 0
        self._total = 0
        #: open collections, their anchors, and for a mapping the key that waits for its value
        self._open: list[Node] = []
        self._names: list[str | None] = []
        self._waiting: list[tuple[str, Place] | None] = []
        self._root: Node | None = None
        self._documents = 0

    def compose(self, loader: Any) -> tuple[Node, list[Problem]]:
        """Take each event of the loader in turn."""
        handlers = {
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.DocumentStartEvent: self._document,
        }
        while (event := loader.get_event()) is not None:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
        return self._checked_root(), self._problems

    def in_list(self) -> bool:
        """Whether the innermost bracket that is open is a [; a mapping in it may have none: `[a: 1]`."""
        for node in reversed(self._open):
            line = "".join(self._source.lines[node.place.line - 1 : node.place.line])
            if isinstance(node.value, list) or line.startswith(("{", "&"), node.place.column - 1):
                return isinstance(node.value, list)
        return False

    def _checked_root(self) -> Node:
        start = Place(self._source, 1, 1)
        if self._root is None or (self._root.value is None and self._root.plain):
            raise RefusedText(start.error("empty-file", "the file is empty", "`fusiond init` writes one to start from"))
        if not isinstance(self._root.value, dict):
            raise RefusedText(
                self._root.place.error("not-a-map", "the file is not a map", "begin it with `version: 1`")
            )
        return self._root

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise RefusedText(
                self._place(event).error("yaml-documents", "a second document begins here", "remove the ---")
            )

    def _start(self, event: Any) -> None:
        place = self._place(event)
        self._refuse_tag(event, place)
        if len(self._open) >= MAX_DEPTH:
            raise RefusedText(place.error("too-deep", f"more than {MAX_DEPTH} levels of nesting", "flatten it"))
        if self._open and self._key_is_due():
            raise RefusedText(
                place.error("yaml-key", "a key must be a text, not a map or list", "quote it if it is a text")
            )
        self._count(1, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(Node({} if isinstance(event, yaml.MappingStartEvent) else [], place))
        self._names.append(event.anchor)
        self._waiting.append(None)

    def _end(self, _event: Any) -> None:
        node, anchor = self._open.pop(), self._names.pop()
        self._waiting.pop()
        if anchor is not None:
            self._anchors[anchor] = node
        self._add(node)

    def _scalar(self, event: Any) -> None:
        place = self._place(event)
        if self._open and self._key_is_due():
            self._key(event, place)
            return
        self._count(1, place)
        self._refuse_tag(event, place)
        plain = event.implicit[0] and event.tag is None and event.style in (None, "")
        expanded = self._expanded(event.value, place)
        value = self._resolved(expanded, place) if plain else expanded
        node = Node(value, place, event.value, expanded, plain)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._add(node)

    def _expanded(self, text: str, place: Place) -> str:
        """The text with its `${VAR}` replaced."""
        if "$" not in text:
            return text
        try:
            return expand(text, self._environ)
        except BadReference as error:
            self._problems.append(place.error(error.code, error.message, error.remedy))
            return text

    def _resolved(self, text: str, place: Place) -> Scalar:
        """What a plain text is."""
        try:
            value = resolve(text)
        except ValueError:
            self._problems.append(place.error("number-too-long", "the number is too long", "quote it if it is a text"))
            return 0
        if isinstance(value, float) and not math.isfinite(value):
            self._problems.append(place.error("not-finite", f"{text} is not a finite number", "write a number"))
            return 0.0
        return value

    def _key(self, event: Any, place: Place) -> None:
        """The key of the innermost mapping; always a text, whatever it looks like."""
        if event.value == "<<" and event.implicit[0]:
            raise RefusedText(
                place.error(
                    "yaml-merge",
                    "merge keys (<<) are not part of YAML 1.2 and not supported",
                    "use `defaults:`, or an alias for the whole map",
                )
            )
        if event.value == "" and event.style in (None, ""):
            self._problems.append(place.error("yaml-key", "a key is missing before the colon", "write the key"))
        self._refuse_tag(event, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = Node(event.value, place, event.value)
        self._waiting[-1] = (event.value, place)

    def _alias(self, event: Any) -> None:
        place = self._place(event)
        node = self._anchors.get(event.anchor)
        if node is None:
            message = f"*{event.anchor} is an alias, and no anchor &{event.anchor} comes before it"
            if event.anchor in self._anchors:
                message = f"*{event.anchor} is inside its own anchor"
            raise RefusedText(place.error("yaml-alias", message, "put it in quotes if it is a text"))
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise RefusedText(
                place.error("too-many-aliases", f"more than {MAX_ALIASES:,} aliases", "write the values out")
            )
        if self._open and self._key_is_due():
            raise RefusedText(place.error("yaml-key", "a key cannot be an alias", "write the key out"))
        self._count(node.size, place)
        self._add(node)

    def _add(self, node: Node) -> None:
        """Put a finished node into what is open around it."""
        if not self._open:
            self._root = node
            return
        parent, waiting = self._open[-1], self._waiting[-1]
        parent.size += node.size
        if isinstance(parent.value, list):
            parent.value.append(node)
            return
        if waiting is None or not isinstance(parent.value, dict):
            raise AssertionError("libyaml sent a value without its key")
        (key, place), self._waiting[-1] = waiting, None
        if key in parent.value:
            first = parent.keys[key]
            message = f"the key {key!r} is here twice; first on line {first.line}"
            self._problems.append(place.error("duplicate-key", message, "remove or rename one"))
            return
        parent.value[key], parent.keys[key] = node, place

    def _key_is_due(self) -> bool:
        return self._waiting[-1] is None and isinstance(self._open[-1].value, dict)

    def _count(self, nodes: int, place: Place) -> None:
        self._total += nodes
        if self._total > MAX_NODES:
            raise RefusedText(
                place.error("too-many-values", f"more than {MAX_NODES:,} values", "split the file with include:")
            )

    def _refuse_tag(self, event: Any, place: Place) -> None:
        if event.tag is not None:
            remedy = "remove it; a text that must stay one is put in quotes"
            raise RefusedText(place.error("yaml-tag", f"tags such as {event.tag} are not supported", remedy))

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        # Of what spans several lines, the first one to its end; of a map or list, the bracket alone.
        last = end.column if start.line == end.line else self._line_end(start.line)
        width = last - start.column if isinstance(event, _OF_TEXT) else 1
        return Place(self._source, start.line + 1, start.column + 1, max(1, width))

    def _line_end(self, line: int) -> int:
        return len(self._source.lines[line].rstrip()) if line < len(self._source.lines) else 0


def _whole(name: str, code: str, message: str, remedy: str) -> Problem:
    return Problem(name, 0, 0, "error", code, message, remedy)


def _not_utf8(source: SourceFile, data: bytes, index: int) -> Problem:
    before, lines = data[:index].decode().removeprefix(_MARK), source.lines
    lines += _BREAK.split(data.decode(errors="replace").removeprefix(_MARK))
    place = Place(source, len(_BREAK.split(before)), len(_BREAK.split(before)[-1]) + 1)
    message = f"the byte {data[index]:#04x} is not UTF-8"
    return place.error("not-utf8", message, "save the file as UTF-8")


def _control_character(source: SourceFile, index: int) -> Problem:
    lines = _BREAK.split(source.text[:index])
    place = Place(source, len(lines), len(lines[-1]) + 1)
    char = f"U+{ord(source.text[index]):04X}"
    return place.error(
        "control-character", f"the character {char} is not allowed in YAML", 'remove it, or escape it in "…"'
    )


def _syntax_error(source: SourceFile, error: yaml.MarkedYAMLError, composer: _Composer) -> Problem:
    # An unclosed quote is reported at the end of the file; where it was opened is what helps.
    opened = error.context_mark if "unexpected end" in (error.problem or "") else None
    mark = opened or error.problem_mark or error.context_mark
    if mark is None:
        return _whole(source.name, "yaml-syntax", f"the file is not YAML: {error.problem}", "")
    line = min(mark.line, len(source.lines) - 1)
    # Where a value is missing, libyaml does not say in what.
    context = (error.context or "").replace("flow node", "flow sequence" if composer.in_list() else "flow mapping")
    found = explain(error.problem or "", context, source.lines[line], mark.column)
    column, width = found.span(source.lines[line], mark.column)
    return Place(source, line + 1, column + 1, width).error(found.code, found.message, found.remedy)
