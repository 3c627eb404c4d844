import pytest

from fusiond.importing.foreign_yaml import documents
from fusiond.importing.input_files import ImportRefused


def test_it_reads_what_ruby_and_kubernetes_do():
    """Merge keys, lists of them, several documents, old booleans, the tags of YAML itself."""
    text = "a: &a {x: 1, y: yes}\nb: &b {x: 2, z: 3}\nc: {<<: [*a, *b], y: 5}\n---\n- '01'\n- ~\n- !!str 7\n"
    first, second = documents("f", text)
    assert first["c"] == {"x": 1, "y": 5, "z": 3}
    assert first["a"] == {"x": 1, "y": True}
    assert second == ["01", None, "7"]


def _laughs(merge):
    lines = ["a0: &a0 {k0: 1, l0: 2}" if merge else "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for n in range(1, 30):
        parts = ", ".join([f"*a{n - 1}"] * 10)
        lines.append(f"a{n}: &a{n} {{<<: [{parts}], k{n}: 1}}" if merge else f"a{n}: &a{n} [{parts}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (_laughs(merge=False), "more than 50,000 values"),
        (_laughs(merge=True), "more than 50,000 values"),
        ("[" * 400, "more than 50 levels"),
        ("a: &a [*a]", "no anchor &a comes before its alias"),
        ("a: [1, 2", "it is no YAML"),
        ("? [1, 2]\n: 3", "a key is a map or a list"),
        ("a: *b", "no anchor &b comes before its alias"),
        ("a: \x01", "it is no YAML"),
        ("a: !ruby/object:Gem::Requirement {x: 1}", "the tag !ruby/object:Gem::Requirement makes an object"),
        ("- !!python/object/apply:os.system [ls]", "line 1: the tag tag:yaml.org,2002:python/object/apply:os.system"),
    ],
    ids=["aliases", "merges", "depth", "itself", "open", "key", "unknown", "control", "ruby", "python"],
)
def test_hostile_text_gets_a_sentence(text, sentence):
    """With the place, in no time and no memory."""
    with pytest.raises(ImportRefused, match=sentence):
        documents("f.yml", text)


def test_a_number_of_many_digits_is_a_text():
    """It would take long to read, and nobody means it."""
    assert documents("f", "9" * 5000) == ["9" * 5000]
