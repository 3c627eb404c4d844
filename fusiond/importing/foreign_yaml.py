"""
YAML as other programs write it → plain data.

Unlike the loader of fusion.yaml it takes several documents, merge keys, and the booleans of YAML 1.1, since Ruby and
Kubernetes do. A tag that would make an object is refused. The text may be hostile, so that levels, values
and aliases are counted; each use of an alias counts all values of its anchor.
"""

from typing import Any, Final

import yaml

from fusiond.config.yaml.scalars import OLD_BOOLEANS, resolve
from fusiond.importing.input_files import ImportRefused

MAX_DEPTH: Final = 50
MAX_VALUES: Final = 50_000
_MERGE: Final = "<<"
#: tags of YAML itself, such as !!str
_CORE: Final = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq"))
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Anchored:
    """A value and how many values it holds."""

    __slots__ = ("depth", "size", "value")

    def __init__(self, value: Any, size: int = 1, depth: int = 0) -> None:
        self.value, self.size, self.depth = value, size, depth


def documents(name: str, text: str) -> list[Any]:
    """Each document of the file; None for an empty one. Raises ImportRefused."""
    loader = _Loader(text)
    try:
        return _Reader(name, loader).documents()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise ImportRefused(f"{name}{place}: it is no YAML: {getattr(error, 'problem', None) or error}") from error
    finally:
        loader.dispose()


class _Reader:
    """Events in, plain data out, one level of Python for each level of the text."""

    def __init__(self, name: str, loader: Any) -> None:
        self._name, self._loader, self._values = name, loader, 0
        self._anchors: dict[str, _Anchored] = {}

    def documents(self) -> list[Any]:
        """Each document."""
        found = []
        while (event := self._loader.get_event()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                found.append(self._node(self._loader.get_event(), 1).value)
        return found

    def _node(self, event: Any, depth: int) -> _Anchored:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        self._count(1, depth, event)
        if event.tag is not None and not event.tag.startswith(_CORE):
            raise self._refused(event, f"the tag {event.tag} makes an object of a program; remove it")
        if isinstance(event, yaml.ScalarEvent):
            found = _Anchored(_value(event))
        elif isinstance(event, yaml.SequenceStartEvent):
            found = self._list(depth)
        else:
            found = self._map(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = found
        return found

    def _alias(self, event: Any, depth: int) -> _Anchored:
        found = self._anchors.get(event.anchor)
        if found is None:
            raise self._refused(event, f"no anchor &{event.anchor} comes before its alias")
        self._count(found.size, depth + found.depth, event)
        return found

    def _list(self, depth: int) -> _Anchored:
        found = _Anchored([])
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            self._add(found, item := self._node(event, depth + 1))
            found.value.append(item.value)
        return found

    def _map(self, depth: int) -> _Anchored:
        found, merged = _Anchored({}), []
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(self._loader.get_event(), depth + 1)
            self._add(found, value)
            if key.value == _MERGE:
                merged += value.value if isinstance(value.value, list) else [value.value]
            elif isinstance(key.value, dict | list):
                raise self._refused(event, "a key is a map or a list")
            else:
                found.value[_text(key.value)] = value.value
        for each in merged:  # the first of them wins
            found.value = {**each, **found.value} if isinstance(each, dict) else found.value
        return found

    def _add(self, around: _Anchored, inner: _Anchored) -> None:
        around.size += inner.size
        around.depth = max(around.depth, inner.depth + 1)

    def _count(self, values: int, depth: int, event: Any) -> None:
        self._values += values
        if depth > MAX_DEPTH:
            raise self._refused(event, f"more than {MAX_DEPTH} levels of maps and lists")
        if self._values > MAX_VALUES:
            raise self._refused(event, f"more than {MAX_VALUES:,} values; split the file")

    def _refused(self, event: Any, reason: str) -> ImportRefused:
        return ImportRefused(f"{self._name}, line {event.start_mark.line + 1}: {reason}")


def _value(event: Any) -> Any:
    """The value of a scalar; a tagged or quoted one is a text."""
    if not event.implicit[0] or event.style not in (None, ""):
        return event.value
    if event.value in OLD_BOOLEANS and len(event.value) > 1:
        return OLD_BOOLEANS[event.value] == "true"
    try:
        return resolve(event.value)
    except ValueError:  # a number of more than 300 digits
        return event.value


def _text(key: Any) -> str:
    """A key as a text."""
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: ""}[key]
    return str(key)
