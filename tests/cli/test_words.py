import argparse

import pytest

from fusiond.cli.enqueue import words
from fusiond.errors import BadArguments

#: deeper than JSON may be nested
DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    ("typed", "args", "kwargs"),
    [
        (["+49123", "code=1234"], ["+49123"], {"code": "1234"}),
        (["n:=3", "on:=true", "tags:=[1, 2]"], [], {"n": 3, "on": True, "tags": [1, 2]}),
        (["text="], [], {"text": ""}),
        (["url=https://x.org/?a=b"], [], {"url": "https://x.org/?a=b"}),
        (["https://x.org/?a=b", "1=2", "-x=1", ""], ["https://x.org/?a=b", "1=2", "-x=1", ""], {}),
        (["größe=3", "zwei\nzeilen=a\nb"], ["zwei\nzeilen=a\nb"], {"größe": "3"}),
    ],
)
def test_words_split_into_arguments_and_keywords(typed, args, kwargs):
    """ARG stays a string, NAME=VALUE is a keyword, NAME:=JSON keeps its type; a URL is not a keyword."""
    assert words.split(typed) == (args, kwargs)


def test_help_says_how_a_string_with_an_equals_sign_is_passed():
    """It would be a keyword; --args takes it as it is."""
    parser = argparse.ArgumentParser()
    words.add_options(parser)
    assert "pass a string such as a=b with --args" in " ".join(parser.format_help().split())
    assert words.arguments(parser.parse_args(["--args", '["a=b"]', "c=d"])) == (["a=b"], {"c": "d"})


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["n:=x"], "n:=x is not JSON"),
        ([f"n:={DEEP}"], "nested deeper than 500 levels; write n=… for a string"),
        (["n=1", "n:=1"], "'n' is given twice"),
    ],
)
def test_a_wrong_word_is_one_sentence(typed, says):
    """What cannot be meant is refused with the word and the remedy."""
    with pytest.raises(BadArguments, match=says):
        words.split(typed)


def test_args_come_before_words_and_keywords_only_once():
    """--args are the first arguments; a keyword in --kwargs and as a word is refused."""
    options = argparse.Namespace(words=["b", "x=1"], args=["a"], kwargs={"y": 2})
    assert words.arguments(options) == (["a", "b"], {"x": "1", "y": 2})
    options.kwargs["x"] = 3
    with pytest.raises(BadArguments, match="'x' is given twice"):
        words.arguments(options)
