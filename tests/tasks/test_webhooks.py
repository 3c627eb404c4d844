"""The webhook, against a real server on a real port."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import ssl
import subprocess
import threading

import pytest

from fusiond.tasks import WebhookRefused, WebhookUnavailable, webhook
from fusiond.tasks.webhooks import KEPT, is_public
from tests.support.receiver import Receiver


@pytest.fixture(autouse=True)
def _operator(monkeypatch):
    """An operator who allows each host, this machine included where a job asks for it."""
    monkeypatch.setenv("FUSION_WEBHOOK_HOSTS", "*")


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.shutdown()
    server.server_close()


def test_the_body_arrives_as_json_and_the_answer_comes_back(receiver):
    """Method, path with its query, headers and body are as asked; the result is status and text."""
    body = {"to": "Zoë", "n": [1, 2.5, None]}
    found = webhook(
        f"{receiver.url}/hook a/é?x=1&y=%20z#part", body, method="put", headers={"X-Shop": "7"}, allow_private=True
    )
    method, path, headers, raw = receiver.requests[0]
    assert found == {"status": 200, "body": "fine"}
    assert (method, path) == ("PUT", "/hook%20a/%C3%A9?x=1&y=%20z")
    assert json.loads(raw) == body
    assert headers["content-type"] == "application/json"
    assert headers["x-shop"] == "7"
    assert headers["host"] == f"127.0.0.1:{receiver.server_port}"
    assert "webhook-signature" not in headers


def test_a_body_with_lone_surrogates_is_sent(receiver):
    """Such as a file name that is not UTF-8: they are written out, as strict readers of JSON refuse them."""
    webhook(receiver.url, {"file": "caf\udce9.csv", "text": "a\0b"}, allow_private=True)
    assert json.loads(receiver.requests[0][3].decode()) == {"file": "caf\\udce9.csv", "text": "a\0b"}


def test_a_request_may_have_no_body(receiver):
    """A GET without a body sends none, and no content type."""
    webhook(receiver.url, method="GET", allow_private=True)
    method, path, headers, raw = receiver.requests[0]
    assert (method, path, raw) == ("GET", "/", b"")
    assert "content-type" not in headers


@pytest.mark.parametrize("secret", ["s3cret", "whsec_" + base64.b64encode(b"\x00\xffkey").decode()])
def test_time_id_and_body_are_signed(receiver, tmp_path, monkeypatch, secret):
    """The signature is that of standardwebhooks.com, over the job's id, from a file or from the environment."""
    (tmp_path / "secret").write_text(secret + "\n")
    monkeypatch.setenv("HOOK_SECRET", secret)
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    job = {"id": "06Zb", "attempt": 2}
    webhook(receiver.url, {"a": 1}, secret_file=str(tmp_path / "secret"), allow_private=True, job=job)
    webhook(receiver.url, {"a": 1}, secret_env="HOOK_SECRET", allow_private=True, job=job)
    for _, _, headers, raw in receiver.requests:
        signed = f"06Zb.{headers['webhook-timestamp']}.".encode() + raw
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-id"] == "06Zb"
        assert headers["webhook-signature"] == f"v1,{expected}"
    assert len(receiver.requests) == 2


def test_the_id_is_that_of_the_job_that_runs(receiver, monkeypatch):
    """Without pass_job the id comes from the child's environment, so that a retry carries the same."""
    monkeypatch.setenv("FUSION_JOB_ID", "06Zc")
    webhook(receiver.url, 1, allow_private=True)
    webhook(receiver.url, 1, allow_private=True)
    assert [headers["webhook-id"] for _, _, headers, _ in receiver.requests] == ["06Zc", "06Zc"]


def test_an_empty_secret_is_an_error_and_not_an_unsigned_request(receiver, tmp_path):
    """Nothing is sent where the secret is missing."""
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(WebhookRefused, match="empty"):
        webhook(receiver.url, 1, secret_file=str(tmp_path / "empty"), allow_private=True)
    with pytest.raises(WebhookRefused, match="NO_SUCH_SECRET"):
        webhook(receiver.url, 1, secret_env="NO_SUCH_SECRET", allow_private=True)
    assert receiver.requests == []


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_an_answer_that_may_change_is_a_connection_error(receiver, status):
    """What the standard policy retries: the other side cannot now."""
    receiver.status = status
    with pytest.raises(WebhookUnavailable, match=str(status)) as caught:
        webhook(receiver.url, 1, allow_private=True)
    assert isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize(("header", "seconds"), [("120", 120.0), ("Mon, 23 Nov 2026 08:00:00 GMT", None), ("-1", None)])
def test_a_host_says_when_it_can_serve_again(receiver, header, seconds):
    """Its Retry-After becomes the delay of the next attempt; a date depends on its clock, and is left out."""
    receiver.status, receiver.headers = 503, {"Retry-After": header}
    with pytest.raises(WebhookUnavailable) as caught:
        webhook(receiver.url, 1, allow_private=True)
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
def test_an_answer_that_will_not_change_is_final(receiver, status):
    """What the standard policy does not retry; the message holds the beginning of the answer, on one line."""
    receiver.status, receiver.body = status, b"no such\nthing " + b"x" * 1000
    with pytest.raises(WebhookRefused, match=f"{status}: no such thing") as caught:
        webhook(receiver.url, 1, allow_private=True)
    assert not isinstance(caught.value, OSError)
    assert len(str(caught.value)) < 300


def test_redirects_are_not_followed(receiver):
    """A redirect could lead where the checks forbid."""
    receiver.status, receiver.headers = 302, {"Location": f"{receiver.url}/inside"}
    with pytest.raises(WebhookRefused, match="redirects are not followed"):
        webhook(receiver.url, 1, allow_private=True)
    assert len(receiver.requests) == 1


def test_the_answer_is_bounded(receiver):
    """A receiver that answers with megabytes costs 64 KiB."""
    receiver.body = b"y" * (3 * KEPT)
    assert len(webhook(receiver.url, 1, allow_private=True)["body"]) == KEPT


def test_a_port_where_nobody_listens_and_one_that_never_answers_are_connection_errors():
    """No connection, no answer in time, and a connection that ends are all worth a retry."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(WebhookUnavailable, match="did not answer"):
            webhook(f"http://127.0.0.1:{port}", 1, timeout=0.2, allow_private=True)
    with pytest.raises(WebhookUnavailable, match="did not answer"):
        webhook(f"http://127.0.0.1:{port}", 1, allow_private=True)


def test_a_connection_that_is_cut_is_not_made_again(monkeypatch):
    """After a cut there is no second request, which could go to another address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = []

        def cut() -> None:
            taken.append(server.accept()[0])
            taken[0].close()

        thread = threading.Thread(target=cut)
        thread.start()
        with pytest.raises(WebhookUnavailable):
            webhook(f"http://127.0.0.1:{server.getsockname()[1]}", 1, allow_private=True, timeout=5)
        thread.join()
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


# --- where it may go


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"])
def test_this_machine_is_refused_under_each_of_its_names(receiver, host):
    """Nothing that is not public is called, unless the file says so."""
    with pytest.raises(WebhookRefused, match="not a public address"):
        webhook(f"http://{host}:{receiver.server_port}/", 1)
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2001:4860:4860::8888", True), ("::ffff:8.8.8.8", True), ("64:ff9b::808:808", True),
        ("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.1", False), ("100.64.0.1", False),
        ("169.254.169.254", False), ("127.8.8.8", False), ("0.0.0.0", False), ("224.0.0.251", False),
        ("255.255.255.255", False), ("::", False), ("::1", False), ("fe80::1%eth0", False), ("fd00::1", False),
        ("fec0::1", False), ("ff02::1", False), ("::ffff:10.0.0.1", False), ("64:ff9b::a00:1", False),
        ("2002:7f00:1::", False), ("2001:db8::1", False),
    ],
)  # fmt: skip
def test_what_is_public(address, public):
    """Private, link-local and special addresses are told, also where an IPv6 address carries one."""
    assert is_public(address) is public


def test_the_name_is_resolved_once_and_the_connection_goes_there(receiver, monkeypatch):
    """A name that resolves to another address at the second time gains nothing: there is no second time."""
    asked, real = [], socket.getaddrinfo

    def rebinding(host, port, *args, **kwargs):
        if host != "hooks.test":
            assert host == "127.0.0.1", "only a number is looked up after the one resolution"
            return real(host, port, *args, **kwargs)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if len(asked) == 1 else "192.0.2.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    webhook(f"http://hooks.test:{receiver.server_port}/", 1, allow_private=True)
    assert asked == ["hooks.test"]
    assert receiver.requests[0][2]["host"] == f"hooks.test:{receiver.server_port}"


def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch):
    """A host is not called on its public address while it also claims an inner one."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("93.184.215.14", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(WebhookRefused, match=r"10\.0\.0\.1"):
        webhook("http://both.test/", 1)


def test_a_job_cannot_allow_itself_what_is_not_public(receiver, monkeypatch):
    """Without a word of the operator's `allow_private` counts for nothing: its arguments are the enqueuer's."""
    monkeypatch.delenv("FUSION_WEBHOOK_HOSTS")
    with pytest.raises(WebhookRefused, match="not a public address"):
        webhook(receiver.url, 1, allow_private=True)
    monkeypatch.setenv("FUSION_WEBHOOK_HOSTS", "127.0.0.1")
    assert webhook(receiver.url, 1, allow_private=True)["status"] == 200
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("by", ["argument", "operator"])
def test_only_listed_hosts_are_called(receiver, monkeypatch, by):
    """The job's list and the operator's each forbid what they do not name; patterns are not case-sensitive."""

    def call(patterns):
        if by == "operator":
            monkeypatch.setenv("FUSION_WEBHOOK_HOSTS", ",".join(patterns))
            return webhook(receiver.url, 1, allow_private=True, allow_hosts=["*"])
        return webhook(receiver.url, 1, allow_private=True, allow_hosts=patterns)

    call(["hooks.test", "127.0.0.*"])
    for patterns in (["hooks.test"], ["27.0.0.1"], [""]):
        with pytest.raises(WebhookRefused, match=r"127\.0\.0\.1 is not in"):
            call(patterns)
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "url",
    ["ftp://example.com/", "file:///etc/passwd", "example.com", "http://", "http://me:pw@example.com/",
     "http://example.com:99999/", "http://[::1", "gopher://example.com", ""],
)  # fmt: skip
def test_what_is_no_http_url_is_refused(url):
    """Another scheme, no host, a password in the URL: refused, and the password is not repeated."""
    with pytest.raises(WebhookRefused) as caught:
        webhook(url, 1, allow_private=True)
    assert "me:pw" not in str(caught.value)


@pytest.mark.parametrize("headers", [{"Host": "other"}, {"webhook-signature": "v1,x"}, {"X-A": "1\r\nX-B: 2"}])
def test_headers_that_would_change_the_request_are_refused(receiver, headers):
    """The host, the signature and the number of headers are not the job's to choose."""
    with pytest.raises(WebhookRefused):
        webhook(receiver.url, 1, headers=headers, allow_private=True)
    assert receiver.requests == []


def test_a_certificate_that_is_not_trusted_is_final_and_a_trusted_one_works(receiver, tmp_path, monkeypatch):
    """With https the certificate is checked against the name in the URL."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
        capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
    url = f"https://localhost:{receiver.server_port}/"
    with pytest.raises(WebhookRefused, match="not trusted"):
        webhook(url, 1, allow_private=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    assert webhook(url, {"a": 1}, allow_private=True)["status"] == 200
    with pytest.raises(WebhookRefused, match="not trusted"):
        webhook(url.replace("localhost", "127.0.0.1"), 1, allow_private=True)


def test_a_host_that_a_callback_of_the_file_names_may_be_private(receiver, monkeypatch):
    """The daemon says which hosts these are; any other one stays refused, and the secret of callbacks signs."""
    monkeypatch.delenv("FUSION_WEBHOOK_HOSTS")
    monkeypatch.setenv("FUSION_WEBHOOK_CALLBACKS", "127.0.0.1,ops.example.com")
    monkeypatch.setenv("FUSION_WEBHOOK_SECRET", "s3cret")
    webhook(receiver.url, {"a": 1}, allow_private=True, job={"id": "j"})
    _, _, headers, body = receiver.requests.pop()
    signed = f"j.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    with pytest.raises(WebhookRefused, match="not a public address"):
        webhook(receiver.url)
    with pytest.raises(WebhookRefused, match="not a public address"):
        webhook(receiver.url.replace("127.0.0.1", "localhost"), allow_private=True)
