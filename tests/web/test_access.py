"""Who gets in: the token, the session, the names."""

import pytest
from starlette.datastructures import Headers

from fusiond.config.model.web_face import Web
from fusiond.errors import FusionError
from fusiond.web.access import SESSION, Access, is_same_origin, read_tokens

TOKEN = "0123456789abcdef"


def access(**settings):
    return Access(Web(**settings), {"": TOKEN})


def test_a_token_is_made_once_and_kept_private(tmp_path):
    """Without token_file the daemon makes one that only its user can read, and finds it again."""
    path = tmp_path / "web-token"
    token = read_tokens(Web(), path)[""]
    assert len(token) > 40
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_tokens(Web(), path) == {"": token}


@pytest.mark.parametrize("content", ["short", "x" * 1000, "päss" * 10])
def test_a_token_that_is_none_is_refused(tmp_path, content):
    """A file that is too short for a token, too long, or not ASCII is told with its path."""
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(FusionError, match=str(path)):
        read_tokens(Web(token_file=str(path)), tmp_path / "other")


def test_a_token_file_that_is_not_there_is_told(tmp_path):
    """The sentence names the file."""
    with pytest.raises(FusionError, match="missing"):
        read_tokens(Web(token_file=str(tmp_path / "missing")), tmp_path / "other")


def test_a_session_holds_for_its_time_and_its_token():
    """A cookie that was changed, is too old, or was made under another token is none."""
    cookie = access().new_session(now=1000)
    assert access().is_session(cookie, now=1000 + SESSION - 1)
    assert not access().is_session(cookie, now=1000 + SESSION)
    assert not Access(Web(), {"": TOKEN[::-1]}).is_session(cookie, now=1000)
    until, _, seal = cookie.partition(".")
    assert not access().is_session(f"{int(until) + 1}.{seal}", now=1000)
    for other in ("", ".", "x.y", "9" * 30, "é.é", f"{until}.", f".{seal}"):
        assert not access().is_session(other, now=1000)


def test_only_the_token_is_the_token():
    """Nor a part of it, nor what cannot be encoded."""
    assert access().holder_of(TOKEN) == ""
    for other in ("", TOKEN[:-1], TOKEN + "x", "é" * 16, "\udc80"):
        assert access().holder_of(other) is None


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost:8321", True),
        ("LOCALHOST", True),
        ("127.0.0.1:8321", True),
        ("[::1]:8321", True),
        ("10.1.2.3", True),
        ("jobs.example.com", True),
        ("jobs.example.com:443", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        ("[", False),
        ("127.0.0.1.evil.example", False),
    ],
)
def test_a_host_is_ours_or_an_address(host, known):
    """A name of another site that points here is refused."""
    assert access(hosts=("jobs.example.com",)).knows_host(host) is known


def test_the_origin_is_the_host_itself():
    """Another port or name, `null` or none is another site."""
    assert is_same_origin("http://localhost:8321", "localhost:8321")
    assert is_same_origin("https://jobs.example.com", "jobs.example.com")
    for origin in ("", "null", "http://localhost", "http://evil.example", "file://", "localhost:8321"):
        assert not is_same_origin(origin, "localhost:8321")


@pytest.mark.parametrize(
    ("peer", "said", "address"),
    [
        ("uid 33", "10.1.1.1", "10.1.1.1"),
        ("uid 33", "6.6.6.6, 10.1.1.1", "10.1.1.1"),
        ("uid 33", "me", "uid 33"),
        ("uid 33", "", "uid 33"),
        ("10.0.0.5", "10.1.1.1", "10.1.1.1"),
        ("10.0.0.6", "10.1.1.1", "10.0.0.6"),
    ],
)
def test_a_proxy_says_who_asks(peer, said, address):
    """One that the file names, or that may connect to the socket; what it was told itself does not count."""
    headers = Headers({"X-Forwarded-For": said})
    assert access(trusted_proxies=("10.0.0.5",)).address_of(peer, headers) == address
