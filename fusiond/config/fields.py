"""
The fields of the model's classes, as their annotations describe them: the key of each, and how its values are written.

For code that treats all keys alike: the build, `explain`, `plan`, some checks, and the generator of the schema.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Union

from fusiond.config.kinds import Key, Kind, PartOf


@dataclass(frozen=True, slots=True)
class Form:
    """What a type hint says."""

    #: without None, and without annotations
    type: Any
    kind: Kind
    key: Key | None
    #: the field whose key sets this one, too; mostly empty
    part_of: str

    @property
    def items(self) -> "Form":
        """The items of a tuple, or the values of a map."""
        return form_of(typing.get_args(self.type)[-2 if typing.get_origin(self.type) is tuple else -1])


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a class of the model that a key of the file sets."""

    #: one that is a word of Python ends in `_`, which the key does not have
    name: str
    form: Form
    #: its own, or that of the field that it is a part of
    key: Key
    #: the name of the key in the file
    written: str
    #: MISSING: the file must have the key
    default: Any
    #: the key is in the file only: the Config has no such field
    of_file: bool
    #: of a section that holds entries by name: the class of these entries
    entries: type | None

    @property
    def by_name(self) -> bool:
        """Whether it is a map of names."""
        return typing.get_origin(self.form.type) is Mapping


@functools.cache
def form_of(hint: Any) -> Form:
    """What a type hint says."""
    notes: list[Any] = []
    while (origin := typing.get_origin(hint)) in (Annotated, ClassVar, Union, types.UnionType):
        args = typing.get_args(hint)
        notes += args[1:] if origin is Annotated else ()
        hint = next(arm for arm in args if arm is not types.NoneType)
    kind = next((note for note in notes if isinstance(note, Kind)), Kind())
    key = next((note for note in notes if isinstance(note, Key)), None)
    part_of = next((note for note in notes if isinstance(note, PartOf)), "")
    return Form(hint, kind, key, part_of)


@functools.cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a class of the model that keys set, and the keys that only the file has, in their order."""
    forms = {name: form_of(hint) for name, hint in typing.get_type_hints(cls, include_extras=True).items()}
    held = {each.name: default_of(each) for each in dataclasses.fields(cls)}
    found = []
    for name, form in forms.items():
        owner = form.part_of or name
        key, default = forms[owner].key, held.get(name, getattr(cls, name, dataclasses.MISSING))
        inner = form.items.type if typing.get_origin(form.type) is Mapping else None
        if key is not None:
            entries = inner if isinstance(inner, type) and dataclasses.is_dataclass(inner) else None
            found.append(Field(name, form, key, owner.rstrip("_"), default, name not in held, entries))
    return tuple(found)


@functools.cache
def keys_of(cls: type) -> tuple[Field, ...]:
    """The fields that are keys of the file themselves."""
    return tuple(each for each in fields_of(cls) if not each.form.part_of)


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a dataclass' field; MISSING where it has none."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def in_place(cls: type, key: str) -> bool:
    """Whether running programs take over a change of a dotted key, such as `logging.level` of a Config."""
    name, _, rest = key.partition(".")
    field = next(each for each in fields_of(cls) if name in (each.name, each.written))
    goes_on = bool(rest) and dataclasses.is_dataclass(field.form.type)
    return field.key.in_place or (goes_on and in_place(field.form.type, rest))
