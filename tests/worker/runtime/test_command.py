"""What a command's child copies of the output of its program."""

import io
import os

from fusiond.worker.runtime import command


def test_what_a_process_writes_on_is_not_waited_for():
    """Only what is in the pipe when the program has ended: the log may take it as slowly as another process writes."""
    reader, writer = os.pipe()

    class Log(io.StringIO):
        def write(self, text):
            os.write(writer, b"more\n")
            return super().write(text)

    log, said = Log(), []
    output = command._Output(io.FileIO(reader, "rb"), log, 100, lambda *words: said.append(words))
    os.write(writer, b"last\n::progress 1")
    output.end()
    os.close(writer)
    assert log.getvalue() == output.text() == "last\n"
    assert said == [(1.0, "")]
