from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from fusiond.config.load import load
from fusiond.config.model.commands import parts_of
from fusiond.importing.draft import Draft, Reference, name_from
from fusiond.importing.draft_text import text_of

# No file has half of a surrogate pair: it would not be UTF-8.
TEXT = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(TEXT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc~-: ", min_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_any_value_is_read_back_as_it_was(value):
    """Whatever is in an argument: quotes, dollars, line ends, words that YAML takes for other types."""
    draft = Draft()
    task = draft.put("tasks", "run", {"run": "a.b"})
    draft.put("cron", "tick", {"task": task, "every": "5m", "args": [value]}, "a comment\nwith two lines: {")
    draft.finish()
    text, lines = text_of(draft, "x")
    found = load("fusion.yaml", environ={}, data=text.encode(errors="surrogatepass"), elsewhere=True)
    assert found.config is not None, [str(problem) for problem in found.problems]
    assert list(found.config.cron["tick"].args) == [value]
    assert set(lines.values()) >= {("cron", "tick"), ("tasks", "run")}


@given(st.lists(st.text(st.sampled_from("$$(){a") | TEXT), min_size=1).filter(itemgetter(0)))
def test_any_word_of_a_command_is_read_back_as_it_was(words):
    """No text becomes a placeholder, nor a reference."""
    draft = Draft()
    draft.command("run", "default", words)
    draft.finish()
    text, _ = text_of(draft, "x")
    found = load("fusion.yaml", environ={}, data=text.encode(errors="surrogatepass"), elsewhere=True)
    assert found.config is not None, [str(problem) for problem in found.problems]
    assert [parts_of(word) for word in found.config.tasks["run"].command] == [[word] for word in words]


def test_a_reference_is_a_number_of_the_environment():
    """Outside of braces, where it keeps its type."""
    draft = Draft()
    draft.group("main", {"queues": ["default"], "processes": Reference("N", "5")})
    text, _ = text_of(draft, "x")
    assert "    processes: ${N:-5}\n" in text
    for environ, number in (({}, 5), ({"N": "7"}, 7)):
        found = load("fusion.yaml", environ=environ, data=text.encode(), elsewhere=True)
        assert found.config.workers["main"].processes == number


@given(st.text())
def test_any_text_gives_a_name(text):
    """One that the file takes."""
    draft = Draft()
    name = draft.queue(text)
    assert name == name_from(text)
    found = load("fusion.yaml", environ={}, data=text_of(draft, "x")[0].encode(), elsewhere=True)
    assert found.config is not None
