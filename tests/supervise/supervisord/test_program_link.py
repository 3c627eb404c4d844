"""The supervisor's end of a link, beside a program that has ended."""

import json

import pytest

from fusiond.supervise.supervisord.program_link import ProgramLink


@pytest.mark.parametrize("unread", [0, 2])
def test_what_a_program_said_last_is_heard(unread):
    """Also where it ended before it had read what it was told."""
    heard = []
    link = ProgramLink("worker:main@1", heard.append)
    for number in range(unread):
        assert link.say({"do": "answer", "n": number})
    said = [{"is": "busy", "slots": 0}, {"is": "failed", "reason": "shop.missing: no module named 'shop'"}]
    for each in said:
        link.theirs.send(json.dumps(each).encode())
    link.close_theirs()
    link.handle_read_event()
    assert heard == said
    assert link.closed
    link.close()
