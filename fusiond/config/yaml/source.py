"""
YAML text → nodes, each with its line and column.

1. parse    libyaml's events, as PyYAML's safe loader produces them: no tag makes an object
2. compose  maps, lists and scalars; each event is checked against the limits below, since the text may be hostile
3. resolve  `${VAR}` first, then the type of plain scalars by the core schema of YAML 1.2

A text that cannot be parsed gives one problem. All other problems (a duplicate key, an unset variable) are collected.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node, Place, Scalar, SourceFile
from fusiond.config.yaml.scalars import resolve
from fusiond.config.yaml.syntax import explain, opens_text

MAX_BYTES: Final = 2**20
#: levels of maps and lists, those of an alias included, so that code which walks the nodes may recurse
MAX_DEPTH: Final = 50
#: nodes of a file and its includes together; each use of an alias counts all nodes of its anchor
MAX_NODES: Final = 50_000
MAX_ALIASES: Final = 1000

#: the byte order mark, with which some editors begin a file
_MARK: Final = "\ufeff"
# libyaml counts these as line breaks, so the excerpts must do so too.
_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
#: a colon with another blank behind it, which YAML takes for a part of the text
_NO_BLANK = re.compile(r":[^\S \t\r\n]")
_CONTROL: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: events whose marks span their own text only
_OF_TEXT: Final = (yaml.ScalarEvent, yaml.AliasEvent, yaml.DocumentStartEvent)
#: libyaml if PyYAML was built with it: ten times as fast
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


#: `${VAR}`, `${VAR:-default}`, and `$$`, which is a dollar; any other dollar stays as it is, and `$$(`, which a command
#: reads itself
_REFERENCE: Final = re.compile(
    r"\$\$(?!\()|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)"
)


class RefusedText(Exception):
    """The text is not YAML, or hostile. `problem` is its one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


class _BadReference(ValueError):
    """A reference that cannot be replaced. `args` are the code, message and remedy of its problem."""


def source_of(name: str, directory: Path, data: bytes) -> SourceFile:
    """The bytes of a file as text. Raises RefusedText if they are too many, or not UTF-8."""
    if len(data) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES >> 20} MiB"
        raise RefusedText(Problem(name, 0, 0, "error", "too-large", message, "split it with include:"))
    # Not utf-8-sig, which does not count the mark in the position of an error.
    text = data.decode(errors="replace").removeprefix(_MARK)
    source = SourceFile(name, directory, text, _BREAK.split(text))
    try:
        data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix(_MARK)
        message = f"the byte {data[error.start]:#04x} is not UTF-8"
        _refuse(_behind(before, source), "not-utf8", message, "save the file as UTF-8")
    return source


def compose(source: SourceFile, environ: Mapping[str, str]) -> tuple[Node, list[Problem]]:
    """The root of a file and the problems that did not stop the reading. Raises RefusedText."""
    if (found := _CONTROL.search(source.text)) is not None:
        message = f"the character U+{ord(found[0]):04X} is not allowed in YAML"
        place = _behind(source.text[: found.start()], source)
        _refuse(place, "control-character", message, 'remove it, or escape it in "…"')
    composer, loader = _Composer(source, environ), _Loader(source.text)
    try:
        return composer.compose(loader), composer.problems
    except yaml.MarkedYAMLError as error:
        raise RefusedText(_syntax_error(source, error, composer)) from error
    finally:
        loader.dispose()


@dataclass(slots=True)
class _Open:
    """A map or list that has not ended yet."""

    node: Node
    anchor: str | None = None
    #: of a map: the key that waits for its value
    key: tuple[str, Place] | None = None

    def expects_key(self) -> bool:
        """Whether the next event is a key."""
        return self.key is None and isinstance(self.node.value, dict)


class _Composer:
    """Events in, one root node out. Open maps and lists are on a stack: hostile depth costs no recursion."""

    def __init__(self, source: SourceFile, environ: Mapping[str, str]) -> None:
        self._source, self._environ = source, environ
        self.problems: list[Problem] = []
        #: anchor → its node; None: its map or list has not ended yet
        self._anchors: dict[str, Node | None] = {}
        self._nodes = self._aliases = 0
        #: the event that was read last
        self._last: Any = None
        #: the list of documents, then each open map or list, the innermost one last
        self._open = [_Open(Node([], Place(source, 1, 1)))]

    def compose(self, loader: Any) -> Node:
        """The root that the loader's events make."""
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
            self._last = event
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
        documents = self._open[0].node
        root = next(iter(documents.items()), None)
        if root is None or (root.value is None and root.plain):
            _refuse(documents.place, "empty-file", "the file is empty", "`fusiond init` writes one to start from")
        if not isinstance(root.value, dict):
            _refuse(root.place, "not-a-map", "the file is not a map", "begin it with `version: 1`")
        return root

    def bracket(self) -> Node | None:
        """The innermost map or list with a bracket; a map in a list may have none: `[a: 1]`."""
        for node in (each.node for each in reversed(self._open[1:])):
            line = self._source.lines[node.place.line - 1]
            if isinstance(node.value, list) or line.startswith(("{", "&"), node.place.column - 1):
                return node
        return None

    def open_quote(self, error: Any) -> Problem | None:
        """The quote that is never closed, if the error is just behind a text that took the next quote for its end."""
        event = self._last
        if not isinstance(event, yaml.ScalarEvent) or event.style not in ("'", '"'):
            return None
        start: Any = event.start_mark
        end: Any = event.end_mark
        # A text that begins with a * is an error from its second character on.
        marks = [(mark.line, mark.column) for mark in (error.problem_mark, error.context_mark) if mark]
        is_text = start.line == end.line and not any(each in event.value for each in ",:")
        if is_text or (end.line, end.column) not in marks:
            return None
        if not opens_text(self._source.lines[end.line], end.column - 1):
            return None
        place = Place(self._source, start.line + 1, start.column + 1)
        message = f"a quote is opened here, and the next one, on line {end.line + 1}, opens another text"
        return place.error("yaml-syntax", message, "close it")

    def _document(self, event: Any) -> None:
        if self._open[0].node.value:
            _refuse(self._place(event), "yaml-documents", "a second document begins here", "remove the ---")

    def _start(self, event: Any) -> None:
        place = self._place(event)
        self._refuse_tag(event, place)
        self._refuse_depth(1, place)
        if self._open[-1].expects_key():
            _refuse(place, "yaml-key", "a key must be a text, not a map or list", "quote it if it is a text")
        self._count(1, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node = Node({} if isinstance(event, yaml.MappingStartEvent) else [], place, depth=1)
        self._open.append(_Open(node, event.anchor))

    def _end(self, _event: Any) -> None:
        ended = self._open.pop()
        self._add(ended.node, ended.anchor)

    def _scalar(self, event: Any) -> None:
        place = self._place(event)
        if self._open[-1].expects_key():
            self._key(event, place)
            return
        self._count(1, place)
        self._refuse_tag(event, place)
        plain = event.implicit[0] and event.tag is None and event.style in (None, "")
        expanded = self._expanded(event.value, place)
        value = self._resolved(expanded, place) if plain else expanded
        self._add(Node(value, place, event.value, expanded, plain), event.anchor)

    def _expanded(self, text: str, place: Place) -> str:
        """The text with its `${VAR}` replaced."""
        try:
            return _REFERENCE.sub(self._value_of, text) if "$" in text else text
        except _BadReference as error:
            self.problems.append(place.error(*error.args))
            return text

    def _value_of(self, reference: re.Match[str]) -> str:
        """
        What replaces a reference. As in a shell, a variable that is empty counts as unset if there is a default.

        Raises:
            _BadReference: the variable is unset and has no default, or the `${` begins no reference.
        """
        name, default = reference["name"], reference["default"]
        if reference["broken"]:
            message = f"{reference.string[reference.start() :][:20]!r} is not a reference"
            remedy = "write ${NAME} or ${NAME:-default}; $${ gives ${ itself"
            raise _BadReference("bad-variable", message, remedy)
        if name is None:
            return "$"
        if default is not None:
            return self._environ.get(name) or default
        if name not in self._environ:
            remedy = f"set it, or give a default: ${{{name}:-default}}; $$ gives $ itself"
            raise _BadReference("unset-variable", f"the environment variable {name} is not set", remedy)
        return self._environ[name]

    def _resolved(self, text: str, place: Place) -> Scalar:
        """The value of a plain text."""
        try:
            value = resolve(text)
        except ValueError:
            self.problems.append(place.error("number-too-long", "the number is too long", "quote it if it is a text"))
            return 0
        if isinstance(value, float) and not math.isfinite(value):
            self.problems.append(place.error("not-finite", f"{text} is not a finite number", "write a number"))
            return 0.0
        return value

    def _key(self, event: Any, place: Place) -> None:
        """The key of the innermost map; it is always a text, whatever it looks like."""
        if event.value == "<<" and event.implicit[0]:
            message = "merge keys (<<) are not part of YAML 1.2 and are not supported"
            _refuse(place, "yaml-merge", message, "use `defaults:`, or an alias for the whole map")
        if event.value == "" and event.style in (None, ""):
            self.problems.append(place.error("yaml-key", "a key is missing before the colon", "write the key"))
        self._refuse_tag(event, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = Node(event.value, place, event.value)
        self._open[-1].key = event.value, place

    def _alias(self, event: Any) -> None:
        place = self._place(event)
        node = self._anchors.get(event.anchor)
        if node is None:
            message = f"*{event.anchor} is an alias, and no anchor &{event.anchor} comes before it"
            if event.anchor in self._anchors:
                message = f"*{event.anchor} is inside its own anchor"
            _refuse(place, "yaml-alias", message, "put it in quotes if it is a text")
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            _refuse(place, "too-many-aliases", f"more than {MAX_ALIASES:,} aliases", "write the values in their places")
        if self._open[-1].expects_key():
            _refuse(place, "yaml-key", "a key cannot be an alias", "write the key itself")
        self._refuse_depth(node.depth, place)
        self._count(node.size, place)
        self._add(node)

    def _add(self, node: Node, anchor: str | None = None) -> None:
        """Put a complete node into the map or list around it."""
        if anchor is not None:
            self._anchors[anchor] = node
        parent, around = self._open[-1], self._open[-1].node
        around.size += node.size
        around.depth = max(around.depth, node.depth + 1)
        if isinstance(around.value, list):
            around.value.append(node)
        elif isinstance(around.value, dict) and parent.key is not None:
            (key, place), parent.key = parent.key, None
            if key in around.value:
                message = f"the key {key!r} is here twice; first on line {around.keys[key].line}"
                self.problems.append(place.error("duplicate-key", message, "remove or rename one"))
            else:
                around.value[key], around.keys[key] = node, place

    def _refuse_depth(self, levels: int, place: Place) -> None:
        # The list of documents is not a level.
        if len(self._open) - 1 + levels > MAX_DEPTH:
            _refuse(place, "too-deep", f"more than {MAX_DEPTH} levels of maps and lists", "use fewer levels")

    def _refuse_tag(self, event: Any, place: Place) -> None:
        if event.tag is not None:
            remedy = "remove it; put the value in quotes if it must stay a text"
            _refuse(place, "yaml-tag", f"tags such as {event.tag} are not supported", remedy)

    def _count(self, nodes: int, place: Place) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            _refuse(place, "too-many-values", f"more than {MAX_NODES:,} values", "split the file with include:")

    def _place(self, event: Any) -> Place:
        start, end, width = event.start_mark, event.end_mark, 1
        if isinstance(event, _OF_TEXT):
            # Of a text of several lines, only the first is marked.
            last = end.column if start.line == end.line else len(self._source.lines[start.line].rstrip())
            width = last - start.column
        return Place(self._source, start.line + 1, start.column + 1, width)


def _refuse(place: Place, code: str, message: str, remedy: str) -> NoReturn:
    raise RefusedText(place.error(code, message, remedy))


def _behind(before: str, source: SourceFile) -> Place:
    """The place that follows a beginning of the text."""
    lines = _BREAK.split(before)
    return Place(source, len(lines), len(lines[-1]) + 1)


def _syntax_error(source: SourceFile, error: Any, composer: _Composer) -> Problem:
    """The problem, at the place that a person has to correct; libyaml reports many mistakes far behind it."""
    mark, bracket = error.problem_mark, composer.bracket()
    if (problem := composer.open_quote(error)) is not None:
        return problem
    context = error.context or ""
    if bracket and "flow" in context and not _has_text_after(source, mark):
        opening, closing = "[]" if isinstance(bracket.value, list) else "{}"
        remedy = f"close it with {closing}"
        return bracket.place.error("yaml-syntax", f"a {opening} is opened here and never closed", remedy)
    if "unexpected end" in error.problem or "could not find expected ':'" in error.problem:
        mark = error.context_mark or mark
    line = min(mark.line, len(source.lines) - 1)
    for near in {line, max(0, line - 1)}:
        if blank := _NO_BLANK.search(source.lines[near]):
            message = "the blank behind this colon is none that YAML knows"
            return Place(source, near + 1, blank.start() + 2).error("yaml-syntax", message)
    # If a value is missing, libyaml does not say whether in a list or in a map.
    in_list = bracket is not None and isinstance(bracket.value, list)
    context = context.replace("flow node", "flow sequence" if in_list else "flow mapping")
    found = explain(error.problem, context, source.lines[line], mark.column)
    column, width = found.span(source.lines[line], mark.column)
    return Place(source, line + 1, column + 1, width).error(found.code, found.message, found.remedy)


def _has_text_after(source: SourceFile, mark: Any) -> bool:
    """Whether there is more than blanks and comments from the mark on."""
    rest = [line[mark.column :] if number == 0 else line for number, line in enumerate(source.lines[mark.line :])]
    return any(line.strip() and not line.lstrip().startswith("#") for line in rest)
