from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.config.load import load
from fusiond.importing.draft import Draft
from fusiond.importing.draft_text import text_of

# No file has half of a surrogate pair: it would not be UTF-8.
TEXT = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(TEXT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc~-: ", min_size=1), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40)
@given(VALUES)
def test_any_value_is_read_back_as_it_was(value):
    """Whatever is in an argument: quotes, dollars, line ends, words that YAML takes for other types."""
    draft = Draft()
    task = draft.command("run", "default")
    draft.put("cron", "tick", {"task": task, "every": "5m", "args": [value]}, "a comment\nwith two lines: {")
    draft.finish()
    text, lines = text_of(draft, "x")
    found = load("fusion.yaml", environ={}, data=text.encode(errors="surrogatepass"), elsewhere=True)
    assert found.config is not None, [str(problem) for problem in found.problems]
    assert list(found.config.cron["tick"].args) == [value]
    assert set(lines.values()) >= {("cron", "tick"), ("tasks", "run")}
