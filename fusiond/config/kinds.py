"""
How the values of the file are written: the parts of the annotations in `config/model/`.

    Key    what the model says of one key besides its type: title, examples, what a change of it does
    Kind   one kind of value, such as a duration: its JSON Schema, how it is read, how it is shown

The kinds that several keys have are here; a kind that one key has is declared with that key. Standard library only, as
the model.
Nothing here knows YAML: `config/build.py` reads nodes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

from fusiond.config.units import DURATION, SIZE, seconds, size_bytes, written, written_size


class Key:
    """A key of the file. The `#:` comment above the field is its description, for editors and the docs."""

    def __init__(
        self,
        title: str,
        *examples: Any,
        in_place: bool = False,
        own: bool = False,
        either: bool | str = False,
        default: Any = ...,
    ) -> None:
        """
        What the model says of a key besides its type.

        Args:
            title: for editors.
            examples: as they are written in the file.
            in_place: running programs take over a change; else the group is replaced, or the daemon must be restarted.
            own: it cannot be written in `defaults`.
            either: a map must have exactly one of its keys with this mark, True or the name of a further group.
            default: as the file would write it, where the field's own default is written in another way.
        """
        self.title, self.examples, self.default = title, [*examples], default
        self.in_place, self.own, self.either = in_place, own, either


class PartOf(str):
    """Marks a field that another key sets: the name of that key's field."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of value."""

    #: keywords of its JSON Schema; the title is the noun of error messages
    schema: Mapping[str, Any] = field(default_factory=dict)
    #: the plain data of the file → the value; None: the type says how
    read: Callable[[Any], Any] | None = None
    #: a number → as people write it
    show: Callable[[Any], str] = str


class Fields(dict[str, Any]):
    """The values of several fields that one key sets."""


def text(
    title: str,
    pattern: str,
    message: str,
    read: Callable[[Any], Any] | None = None,
    show: Callable[[Any], str] = str,
    **keywords: Any,
) -> Kind:
    """A kind of text; an editor shows the message beside a value of another form or type."""
    messages = {"patternErrorMessage": message, "errorMessage": message}
    return Kind({"title": title, "type": "string", "pattern": pattern, **messages, **keywords}, read, show)


def meanings(*of_words: str, message: str = "") -> Kind:
    """
    What each word of a Literal means, in their order. A word without a meaning cannot be written in the file.

    `message`: the remedy for another word, in an editor too.
    """
    return Kind({"enumDescriptions": [*of_words]} | ({"errorMessage": message} if message else {}))


def between(least: int, most: int, **keywords: Any) -> Kind:
    """A whole number within bounds."""
    return Kind({"type": "integer", "minimum": least, "maximum": most, **keywords}, read=int)


#: regular expressions: of a name, of an identifier
A_NAME: Final = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
WORD: Final = "[A-Za-z_][A-Za-z0-9_]*"

NAME: Final = text("name", f"^{A_NAME}$", "write a name of letters, digits, _ . and -, at most 100 characters")
#: absolute; a relative one starts at the file that holds it; a `~` would not be expanded
PATH: Final = text("path", "^[^\\u0000~][^\\u0000]*$", "write the path of a file or directory, such as /srv/shop")
#: a relative one starts elsewhere
PATH_ELSEWHERE: Final = Kind(PATH.schema)
#: a number or boolean, too: 1.10 stays 1.10
AS_WRITTEN: Final = Kind({"type": ["string", "number", "boolean"], "pattern": "^[^\\u0000]*$"})
_DURATION: Final = "write a duration with its unit, such as 90s, 10m or 1h30m"
SECONDS: Final = text("duration", DURATION, _DURATION, seconds, written, examples=["90s", "10m", "1h30m"])
BYTES: Final = text("size", SIZE, "write a size with its unit, such as 512MiB or 2GB", size_bytes, written_size)
_ACCOUNT: Final = "write the name of a user or group of this machine, such as shop"

Name = Annotated[str, NAME]
FilePath = Annotated[str, PATH]
Text = Annotated[str, Kind({"title": "text", "minLength": 1})]
Line = Annotated[str, Kind({"title": "text", "minLength": 1, "maxLength": 200})]
Account = Annotated[str, text("account name", r"^[A-Za-z_][A-Za-z0-9_.-]*\$?$", _ACCOUNT)]
#: seconds
Duration = Annotated[float, SECONDS]

T = TypeVar("T")
PARTIAL: Final = Kind()
#: a map of the keys that an entry takes, except those that are `own`
Partial = Annotated[T, PARTIAL]
