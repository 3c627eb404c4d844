"""The dashboard of a real daemon."""

import http.client

import pytest

from fusiond import paths
from tests.support.running import until


def ask(daemon, path):
    """The API's status and text."""
    url = paths.web_url(daemon.runtime).read_text().strip()
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=60)
    token = paths.web_token(daemon.state).read_text().strip()
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    reply = connection.getresponse()
    try:
        return reply.status, reply.read().decode()
    finally:
        connection.close()


@pytest.mark.proof
def test_the_dashboard_comes_and_goes_with_its_key(daemon):
    """A reload starts and ends it; a file that is refused is shown with its problem in place."""
    daemon.start("broker: {url: embedded}\n")
    assert "web" not in daemon.names()
    assert daemon.reload("web: {listen: '127.0.0.1:0'}\n")["result"] == "applied"
    until(paths.web_url(daemon.runtime).exists, daemon.text)
    status, page = ask(daemon, "/")
    assert status == 200
    assert "Nothing needs attention." in page
    assert str(daemon.file) in page
    assert daemon.reload("web: {listen: '127.0.0.1:0'}\nqueus: {}\n")["result"] == "refused"
    for path in ("/configuration", "/configuration/plan"):
        # What a page has asked of the daemon is kept for a second.
        until(lambda path=path: "<code><mark>queus</mark>: {}</code>" in ask(daemon, path)[1], path, step=0.1)
    daemon.reload("watch: false\n")
    until(lambda: "web" not in daemon.names(), daemon.text)
    with pytest.raises(FileNotFoundError):
        ask(daemon, "/")
