"""
The inputs of an endpoint: what a query, a path or a body may say, each within bounds.

One declaration serves the page, the API and its OpenAPI document. What is outside the bounds is refused with one
sentence, never cut.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from fusiond.config.units import DURATION, seconds
from fusiond.json_depth import TOO_DEEP, too_deep

Place = Literal["path", "query", "body"]
#: how a value is read: as it is, a whole number, a moment, a switch, or JSON of this type
Form = Literal["text", "number", "moment", "switch", "array", "object"]
#: forms of JSON
_TYPES: dict[str, type] = {"array": list, "object": dict}


class BadInput(Exception):
    """An input is outside its bounds; the sentence says which and why."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input."""

    name: str
    description: str
    place: Place = "query"
    form: Form = "text"
    default: Any = None
    required: bool = False
    #: texts: regular expression of the whole, and the most characters
    pattern: str = ""
    longest: int = 200
    #: the words that it may be
    words: tuple[str, ...] = ()
    #: numbers
    least: int = 0
    most: int = 1_000_000
    #: how often it may be given, if more than once
    many: int = 0

    def read(self, said: str) -> Any:
        """The value of a text. Raises BadInput."""
        if self.form not in _TYPES and said.encode(errors="ignore").decode() != said:
            raise BadInput(f"{self.name}: it has a lone surrogate, which no text in UTF-8 has")
        if len(said) > self.longest:
            raise BadInput(f"{self.name}: at most {self.longest} characters")
        if self.words and said not in self.words:
            raise BadInput(f"{self.name}: {said[:40]!r} is none of {', '.join(self.words)}")
        if self.pattern and not re.fullmatch(self.pattern, said):
            raise BadInput(f"{self.name}: {said[:40]!r} is not of the form {self.pattern}")
        if self.form == "number":
            return self._number(said)
        if self.form == "moment":
            return moment(self.name, said, time.time())
        if self.form in _TYPES:
            return self._json(said)
        return said in ("1", "true", "on", "yes") if self.form == "switch" else said

    def _number(self, said: str) -> int:
        if not re.fullmatch("[0-9]{1,12}", said) or not self.least <= int(said) <= self.most:
            raise BadInput(f"{self.name}: {said[:40]!r} is not a whole number from {self.least} to {self.most}")
        return int(said)

    def _json(self, said: str) -> Any:
        value = read_json(self.name, said)
        if not isinstance(value, _TYPES[self.form]):
            raise BadInput(f"{self.name}: {said[:40]} is no JSON {self.form}")
        return value

    def texts(self, value: Any) -> list[str]:
        """A value of a JSON body as texts for `read`. Raises BadInput."""
        if self.form in _TYPES:  # a text in JSON is not read as JSON once more
            return [json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
        values = value if self.many and isinstance(value, list) else [value]
        if any(isinstance(each, list | dict) for each in values):
            raise BadInput(f"{self.name}: {json.dumps(value)[:40]} is not a single value")
        return [each if isinstance(each, str) else json.dumps(each) for each in values]

    def schema(self) -> dict[str, Any]:
        """As a JSON Schema."""
        kinds = {"number": "integer", "switch": "boolean", "array": "array", "object": "object"}
        found: dict[str, Any] = {"type": kinds.get(self.form, "string")}
        if self.form == "number":
            found |= {"minimum": self.least, "maximum": self.most}
        elif self.form in ("text", "moment"):
            found["maxLength"] = self.longest
        if self.words:
            found["enum"] = [*self.words]
        if self.pattern:
            found["pattern"] = f"^{self.pattern}$"
        if self.default is not None:
            found["default"] = self.default
        return {"type": "array", "items": found, "maxItems": self.many} if self.many else found


def moment(name: str, said: str, now: float) -> int:
    """
    A moment in epoch ms: `90s` or `2h` is so long ago; else an ISO time, in UTC if it names no zone.

    Raises BadInput.
    """
    try:
        if re.match(DURATION, said):
            return round((now - seconds(said)) * 1000)
        at = datetime.fromisoformat(said)
        return round(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadInput(f"{name}: {said[:40]!r} is not a time; write 2h for two hours ago or 2026-01-31T09:00") from None


def read_json(name: str, said: str | bytes) -> Any:
    """Any JSON value. Raises BadInput."""
    raw = said.encode(errors="surrogatepass") if isinstance(said, str) else said
    if too_deep(raw):
        raise BadInput(f"{name}: {TOO_DEEP}")
    try:
        return json.loads(raw)
    except ValueError as error:
        raise BadInput(f"{name}: not JSON: {error}") from None


def texts_of(inputs: tuple[Input, ...], said: Mapping[str, Any]) -> dict[str, list[str]]:
    """
    The members of a JSON object as texts, as a form has them; null is as good as missing.

    Raises BadInput.
    """
    known = {each.name: each for each in inputs}
    given = {name: value for name, value in said.items() if value is not None}
    return {name: known[name].texts(value) if name in known else [] for name, value in given.items()}


def gathered(inputs: tuple[Input, ...], said: Mapping[str, list[str]]) -> dict[str, Any]:
    """
    The values of all inputs, from texts. Empty texts are as good as missing, since a form sends them.

    Raises BadInput.
    """
    known = [each.name for each in inputs]
    if unknown := sorted(said.keys() - {*known, "back", "done"}):
        raise BadInput(f"this page has no parameter {unknown[0][:40]!r}; it has {', '.join(known) or 'none'}")
    found: dict[str, Any] = {}
    for each in inputs:
        texts = [text for text in said.get(each.name, []) if text]
        if len(texts) > max(1, each.many):
            raise BadInput(f"{each.name}: given {len(texts)} times")
        if not texts and each.required:
            raise BadInput(f"{each.name} is missing: {each.description}")
        values = [each.read(text) for text in texts]
        found[each.name] = values if each.many else values[0] if values else each.default
    return found
