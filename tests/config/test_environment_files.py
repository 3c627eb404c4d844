"""environment_file, as systemd.exec(5) describes EnvironmentFile=."""

import pytest

from fusiond.config.environment_files import read

READ = {
    "a comment, and a line without a name or =": ("# A=1\n  ; B=2\n\nC\n=x\nD=4", {"D": "4"}),
    "blanks around": (" A = 1 \t\nB= two words \r\n", {"A": "1", "B": "two words"}),
    "only a line end ends a line": ("A=x\u2028B=2\x85\x0b\x0c\x1cC=3", {"A": "x\u2028B=2\x85\x0b\x0c\x1cC=3"}),
    "single quotes": ("A='one\ntwo \\n\"' \nB=2", {"A": 'one\ntwo \\n"', "B": "2"}),
    "double quotes": ('A="one\ntwo"\nB="\\"\\\\\\$\\` \\n"', {"A": "one\ntwo", "B": '"\\$` \\n'}),
    "quotes go on": ("A='a' \"b\"c'\nB=d'e'", {"A": "abc'", "B": "d'e'"}),
    "a backslash": ("A=one\\\ntwo\nB=C:\\\\dir\\ \nC=a\\nb", {"A": "onetwo", "B": "C:\\dir ", "C": "anb"}),
    "nothing is expanded": ("A=$HOME\nB=${HOME}", {"A": "$HOME", "B": "${HOME}"}),
    "the last one wins": ("A=1\nA=2\nB=\nC=''", {"A": "2", "B": "", "C": ""}),
}
REFUSED = {
    "\ufeffA=1": r"line 1 has a byte order mark \(U\+FEFF\)",
    "A=1\nB=a\0b": "line 2 has a NUL",
    "A='one\ntwo'\nexport B=1": "line 3: 'export B' is not a variable's name",
    'A="one\nB=2': "line 1: the quote of A has no end",
}


@pytest.mark.parametrize("case", READ)
def test_a_file_is_read_as_systemd_reads_it(tmp_path, case):
    text, variables = READ[case]
    (tmp_path / "a.env").write_text(text, newline="")
    assert read([tmp_path / "a.env"]) == variables


@pytest.mark.parametrize("text", REFUSED)
def test_what_systemd_would_pass_over_is_refused(tmp_path, text):
    """A secret that is cut, or a variable with a blank in its name, would be found out at night."""
    (tmp_path / "a.env").write_text(text, newline="")
    with pytest.raises(OSError, match=REFUSED[text]):
        read([tmp_path / "a.env"])
