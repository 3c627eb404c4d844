"""
How the file's values are written: the parts of the annotations in `config/model.py`.

    Key    what the model says of one key beside its type: title, examples, what a change of it does
    Kind   one kind of value, such as a duration: its JSON Schema, how it is read, how it is shown

Standard library only, as the model. Nothing here knows YAML: `config/build.py` reads nodes.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeVar

from fusiond.config.units import DURATION, SHARE, SIZE, seconds, share, size_bytes, written, written_size

#: seconds from the soft timeout, an exception, to the hard one, SIGKILL
HARD_AFTER_SOFT: Final = 10.0


class Key:
    """A key of the file. The `#:` comment above the field is its description, for editors and the docs."""

    def __init__(
        self,
        title: str,
        *examples: Any,
        in_place: bool = False,
        own: bool = False,
        either: bool = False,
        default: Any = ...,
    ) -> None:
        """
        What the model says of a key beside its type.

        Args:
            title: for editors.
            examples: as they are written in the file.
            in_place: running programs take a change; else the group is replaced, or the daemon must be restarted.
            own: it cannot be written in `defaults`.
            either: a map must have exactly one of its keys with this mark.
            default: as the file would write it, where the field's own default is written in another way.
        """
        self.title, self.examples, self.default = title, [*examples], default
        self.in_place, self.own, self.either = in_place, own, either


class PartOf(str):
    """Marks a field that another key says: the name of the field of this key."""

    __slots__ = ()


class Kind:
    """One kind of value."""

    def __init__(
        self,
        schema: dict[str, Any] | None = None,
        read: Callable[[Any], Any] | None = None,
        show: Callable[[Any], str] = str,
    ) -> None:
        """
        What all values of the kind have in common.

        Args:
            schema: keywords of its JSON Schema; the title is the noun of error messages.
            read: the plain data of the file → the value; None: the type says how.
            show: a number → as people write it.
        """
        self.schema, self.read, self.show = schema or {}, read, show


class Fields(dict[str, Any]):
    """The values of several fields that one key says."""


# -- texts ------------------------------------------------------------------------------------------------------------


def _text(title: str, pattern: str, message: str, **keywords: Any) -> dict[str, Any]:
    """The schema of a text; the message is what an editor says of a value with another form or type."""
    messages = {"patternErrorMessage": message, "errorMessage": message}
    return {"title": title, "type": "string", "pattern": pattern, **messages, **keywords}


_NAME: Final = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
_WORD: Final = "[A-Za-z_][A-Za-z0-9_]*"
_NO_NUL: Final = "^[^\\u0000]"

NAME: Final = Kind(_text("name", f"^{_NAME}$", "write a name of letters, digits, _ . and -, at most 100 characters"))
NAMESPACE: Final = Kind(
    _text("name", "^[A-Za-z0-9_.:-]{1,64}$", "write a name of letters, digits, _ . : and -, at most 64 characters")
)
#: absolute; a relative one starts at the file that holds it
PATH: Final = Kind(_text("path", f"{_NO_NUL}+$", "write the path of a file or directory, such as /srv/shop"))
#: a relative one starts elsewhere
PATH_ELSEWHERE: Final = Kind(PATH.schema)
#: a number or boolean, too: 1.10 stays 1.10
AS_WRITTEN: Final = Kind({"type": ["string", "number", "boolean"], "pattern": f"{_NO_NUL}*$"})

Name = Annotated[str, NAME]
Namespace = Annotated[str, NAMESPACE]
FilePath = Annotated[str, PATH]
PathElsewhere = Annotated[str, PATH_ELSEWHERE]
AsWritten = Annotated[str, AS_WRITTEN]
Text = Annotated[str, Kind({"title": "text", "minLength": 1})]
Line = Annotated[str, Kind({"title": "text", "minLength": 1, "maxLength": 200})]
_FUNCTION: Final = "write the path of a function, such as package.module.function"
DottedPath = Annotated[str, Kind(_text("dotted path", rf"^{_WORD}(\.{_WORD})+$", _FUNCTION))]
_EXCEPTION: Final = "write the name of an exception, such as ConnectionError or requests.exceptions.Timeout"
_EXCEPTIONS: Final = ["ConnectionError", "requests.exceptions.Timeout"]
ExceptionName = Annotated[
    str, Kind(_text("exception name", rf"^{_WORD}(\.{_WORD})*$", _EXCEPTION, examples=_EXCEPTIONS))
]
Variable = Annotated[str, Kind(_text("variable name", f"^{_WORD}$", "write the name of a variable, such as APP_ENV"))]
_GLOB: Final = "write the name of a variable; * and ? are wildcards, such as DB_*"
VariableGlob = Annotated[
    str, Kind(_text("variable name or glob", r"^[A-Za-z0-9_*?\[\]!-]{1,200}$", _GLOB, examples=["DB_*"]))
]
Keyword = Annotated[str, Kind(_text("keyword", f"^{_WORD}$", "write a Python name, such as job"))]
_ACCOUNT: Final = "write the name of a user or group of this machine, such as shop"
Account = Annotated[str, Kind(_text("account name", r"^[A-Za-z_][A-Za-z0-9_.-]*\$?$", _ACCOUNT))]


def meanings(*of_words: str) -> Kind:
    """What each word of a Literal means, in their order. A word without a meaning cannot be written in the file."""
    return Kind({"enumDescriptions": [*of_words]})


# -- numbers ----------------------------------------------------------------------------------------------------------


def between(least: int, most: int, **keywords: Any) -> Kind:
    """A whole number within bounds."""
    return Kind({"type": "integer", "minimum": least, "maximum": most, **keywords}, read=int)


_DURATION: Final = "write a duration with its unit, such as 90s, 10m or 1h30m"
SECONDS: Final = Kind(
    _text("duration", DURATION, _DURATION, examples=["90s", "10m", "1h30m"]), read=seconds, show=written
)
_SIZE: Final = "write a size with its unit, such as 512MiB or 2GB"
BYTES: Final = Kind(_text("size", SIZE, _SIZE), read=size_bytes, show=written_size)
_OCTAL: Final = 'write three octal digits in quotes, such as "027"'
OCTAL: Final = Kind(_text("umask", "^0?[0-7]{3}$", _OCTAL), read=lambda digits: int(digits, 8), show="{:03o}".format)


def _processes(said: str | float) -> int:
    from fusiond.config.quota import cpu_quota

    return int(said) if said != "auto" else cpu_quota()


_OR_WORD: Final = {"type": ["integer", "string"]}
PROCESSES: Final = Kind(
    _text("", "^auto$", "write a number from 1 up, or auto") | between(1, 1024).schema | _OR_WORD, read=_processes
)
_PRIORITY: Final = "write a name of priorities, such as high, or a number from 0 to 255"
#: a name of `priorities` is left for `build`, which knows them
PRIORITY: Final = Kind(
    _text("priority", NAME.schema["pattern"], _PRIORITY) | between(0, 255).schema | {"type": ["string", "integer"]},
    read=lambda said: said if isinstance(said, str) else int(said),
)

#: seconds
Duration = Annotated[float, SECONDS]
#: bytes
Size = Annotated[int, BYTES]
Umask = Annotated[int, OCTAL]
Processes = Annotated[int, PROCESSES]
Priority = Annotated[int, PRIORITY]
#: 0 to 1
Share = Annotated[float, Kind(show="{:.0%}".format)]

# -- values of several forms ------------------------------------------------------------------------------------------


def _timeout(said: str | Mapping[str, str | None]) -> dict[str, float]:
    """A scalar is the soft one; the hard one follows."""
    soft, hard = (said, None) if isinstance(said, str) else (said["soft"], said.get("hard"))
    limit = seconds(str(soft))
    return {"soft": limit, "hard": limit + HARD_AFTER_SOFT if hard is None else seconds(hard)}


def _backoff(said: str | list[str]) -> Fields:
    if isinstance(said, str):
        return Fields(backoff=said)
    return Fields(backoff="list", delays=tuple(map(seconds, said)))


def _jitter(said: str) -> Fields:
    if said.endswith("%"):
        return Fields(jitter_share=share(said))
    return Fields(jitter_share=0.0, jitter=seconds(said))


def _served(said: str | list[str] | dict[str, int]) -> Fields:
    """The queues of a group: a list, a map of weights, or `*`."""
    if isinstance(said, dict):
        weights = {name: int(weight) for name, weight in said.items()}
        return Fields(queues=tuple(weights), weights=weights, order="weighted")
    return Fields(queues=tuple(said))


TIMEOUT: Final = Kind(
    _text(
        "duration",
        DURATION,
        "write a duration with its unit, such as 30s, or a map such as {soft: 50m, hard: 1h}",
        type=["string", "object"],
        defaultSnippets=[
            {
                "label": "soft and hard",
                "description": "an exception after the first, SIGKILL after the second",
                "body": {"soft": "50m", "hard": "1h"},
            }
        ],
    ),
    read=_timeout,
)
BACKOFF: Final = Kind(
    {
        "anyOf": [
            {
                "title": "Back-off by name",
                "enum": ["fixed", "linear", "exponential"],
                "enumDescriptions": [
                    "the same delay each time",
                    "delay, 2 × delay, 3 × delay … up to max_delay",
                    "delay, 2 × delay, 4 × delay … up to max_delay",
                ],
            },
            {"title": "list of delays", "type": "array", "minItems": 1, "items": SECONDS.schema},
        ]
    },
    read=_backoff,
)
_JITTER: Final = "write a share such as 25%, or a duration such as 5s"
JITTER: Final = Kind(_text("share or duration", f"{SHARE}|{DURATION}", _JITTER), read=_jitter, show=written)
SERVED: Final = Kind(
    _text(
        "",
        r"^\*$",
        'write a list of queues, a map of queues and weights, or "*" for all queues',
        type=["array", "object", "string"],
        minItems=1,
        uniqueItems=True,
        items=_text("name", rf"^(\*|{_NAME})$", "write a name of a declared queue", examples=["reports"]),
        minProperties=1,
        propertyNames=NAME.schema,
        additionalProperties=between(1, 1000, title="weight", examples=[3]).schema,
        defaultSnippets=[
            {
                "label": "queues by weight",
                "description": "more jobs from a queue of more weight",
                "body": {"sms": 3, "email": 1},
            }
        ],
    ),
    read=_served,
)

# -- maps -------------------------------------------------------------------------------------------------------------

T = TypeVar("T")
PARTIAL: Final = Kind()
#: a map of the keys that an entry takes, save those of its own
Partial = Annotated[T, PARTIAL]
