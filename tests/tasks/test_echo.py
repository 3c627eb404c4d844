"""`fusiond.tasks.echo`."""

from fusiond.tasks import echo


def test_echo_prints_and_returns_what_it_is_given(capsys):
    """A first job shows its arguments in the log and in its result."""
    assert echo("a", 1, name="Zoë") == {"args": ["a", 1], "kwargs": {"name": "Zoë"}}
    assert capsys.readouterr().out == "a 1 name='Zoë'\n"
