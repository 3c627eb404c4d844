"""Files whose keys hold values of their kind, or nearly."""

from hypothesis import strategies as st

from tests.file_reference import SCHEMA

NAMES = ["default", "q", "a", "*", "none", "standard"]
WORDS = [
    *NAMES, "90s", "0s", "1h30m", "50ms", "512MiB", "25%", "high", "moderate", "x.y", "* * * * *", "@daily",
    "0 0 30 2 *",
    "UTC", "Europe/Berlin", "embedded", "redis://h", "unix:///x?db=1", "rediss://:p@h", "redis://[", "${X}", "${NO}",
    "auto", "027", "fork", "strict", "list", "linear", "", "\n", "/", "~/x", "a\u0000b", "x" * 300, "\udcff",
    "yes", "22:30",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(WORDS),
)


def any_of(schema):
    """A strategy for values that a schema might take, or nearly: its keys with values of their kind, and stray ones."""
    choices = [SCALARS, st.sampled_from(schema["examples"])] if schema.get("examples") else [SCALARS]
    if "properties" in schema:
        known = {key: any_of(described) for key, described in schema["properties"].items()}
        choices = [st.fixed_dictionaries({}, optional=known)] * 12 + choices
    elif isinstance(schema.get("additionalProperties"), dict):
        choices = [
            st.dictionaries(st.sampled_from(NAMES), any_of(schema["additionalProperties"]), max_size=3)
        ] * 12 + choices
    elif "items" in schema:
        choices = [st.lists(any_of(schema["items"]), max_size=3)] * 4 + choices
    return st.one_of(choices)


FILES = any_of(SCHEMA).filter(lambda content: isinstance(content, dict))
