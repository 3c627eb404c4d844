import pytest

from fusiond.importing.input_files import ImportRefused, text_of


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\x7fELF\x02\x01\x01\0\0", "is not a text file"),
        (b"a: \xff\xfe", r"is not UTF-8 \(byte 3\)"),
        (b"#" * (2**20 + 1), "is larger than 1 MiB"),
    ],
    ids=["binary", "latin", "large"],
)
def test_what_is_no_text_gets_a_sentence(tmp_path, data, sentence):
    """Of 100 MB, no more than the limit is read."""
    (tmp_path / "given").write_bytes(data)
    with pytest.raises(ImportRefused, match=sentence):
        text_of(str(tmp_path / "given"))


def test_line_ends_of_windows_and_a_mark_are_no_text(tmp_path):
    """They would be parts of commands."""
    (tmp_path / "given").write_bytes("\ufeff1 2 * * * x\r\n".encode())
    assert text_of(str(tmp_path / "given")) == "1 2 * * * x\n"
