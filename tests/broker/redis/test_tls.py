"""rediss://: over a real TLS connection, which ends at a door in front of the test's Redis."""

import asyncio
import contextlib
import dataclasses
import fcntl
import shutil
import ssl
import subprocess
import sys
import termios
import threading

import pytest
from hiredis import pack_command

from fusiond import Client
from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.address import address
from fusiond.broker.redis.connection import connect, connect_async
from fusiond.broker.redis.sessions import LoopSession
from fusiond.config import model
from fusiond.errors import BrokerUnavailable
from tests.support.asking import KINDS, ask
from tests.support.running import PATIENCE, until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")

#: more than a record of TLS and than a receive's buffer
LARGE = plain(len, "ECHO", "x" * 300_000)
PING = plain(as_is, "PING")


class Door(threading.Thread):
    """Lets TLS in on a port of loopback and plain bytes out to a unix socket."""

    def __init__(self, path, certificate, key):
        super().__init__(daemon=True)
        self._path = path
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._ready = threading.Event()
        self.port = 0

    def run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        server = await asyncio.start_server(self._let_through, "127.0.0.1", 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await asyncio.Event().wait()

    async def _let_through(self, reader, writer):
        there, out = await asyncio.open_unix_connection(self._path)
        await asyncio.gather(self._pump(reader, out), self._pump(there, writer))

    async def _pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    def open(self):
        self.start()
        assert self._ready.wait(PATIENCE)
        return self


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """A certificate of 127.0.0.1, its key; those of somebody else; and those of another host."""
    place = tmp_path_factory.mktemp("papers")
    found = []
    for name, host in (("ours", "127.0.0.1"), ("theirs", "127.0.0.1"), ("elsewhere", "127.0.0.9")):
        certificate, key = place / f"{name}.pem", place / f"{name}.key"
        words = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]
        words += ["-addext", f"subjectAltName=IP:{host}", "-keyout", key, "-out", certificate]
        subprocess.run(["openssl", *words], check=True, capture_output=True)
        found += [certificate, key]
    return found


@pytest.fixture
def settings(redis_server, papers):
    door = Door(redis_server.path, *papers[:2]).open()
    return model.Broker(url=f"rediss://127.0.0.1:{door.port}", tls=model.Tls(ca_file=str(papers[0])))


@KINDS
def test_replies_that_are_larger_than_a_record(settings, tmp_path, kind):
    """Several, over one connection."""
    assert ask(kind, settings, tmp_path, [LARGE, LARGE]) == [300_000] * 2


def test_records_that_came_together(settings, tmp_path):
    """Here asyncio takes several of them into one buffer."""

    async def story():
        where = address(settings, tmp_path, PATIENCE)
        session = await LoopSession.connected(where, where.places[0])
        await session.send(pack_command(LARGE.words))
        connected = session._transport.get_extra_info("socket")
        # Nothing is read before this, since the loop does not run.
        until(lambda: _waiting_bytes(connected) > 1 << 15)
        reply = await session.read()
        session.close()
        return reply

    assert asyncio.run(story()) == LARGE.words[1].encode()


def _waiting_bytes(connected):
    """How many bytes the kernel holds for a socket."""
    return int.from_bytes(fcntl.ioctl(connected.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)


def test_messages_are_heard(settings, tmp_path):
    """As without TLS."""

    async def story():
        async with connect_async(settings, tmp_path) as connection:
            subscription = await connection.subscribe(["c"])
            await connection.run(plain(as_is, "PUBLISH", "c", "m"))
            heard = await anext(subscription)
            await subscription.aclose()
            return heard

    assert asyncio.run(story()) == ("c", b"m")


def test_a_server_with_another_certificate_is_refused(redis_server, papers, tmp_path):
    """Before anything is said to it."""
    door = Door(redis_server.path, *papers[2:4]).open()
    settings = model.Broker(url=f"rediss://127.0.0.1:{door.port}", tls=model.Tls(ca_file=str(papers[0])))
    with pytest.raises(BrokerUnavailable, match=r"certificate.*check ca_file"):
        connect(settings, tmp_path).run(PING)


@KINDS
@pytest.mark.parametrize(
    ("option", "of", "lets_in"),
    [
        ("ssl_cert_reqs=none", "theirs", True),
        ("ssl_check_hostname=false", "theirs", False),
        ("ssl_check_hostname=true", "elsewhere", False),
        ("ssl_check_hostname=false", "elsewhere", True),
    ],
)
def test_the_url_may_ask_for_less(redis_server, papers, tmp_path, option, of, lets_in, kind):
    """For a certificate that nobody has signed, or that names another host."""
    door = Door(redis_server.path, *(papers[2:4] if of == "theirs" else papers[4:])).open()
    ca = papers[4] if of == "elsewhere" else papers[0]
    settings = model.Broker(url=f"rediss://127.0.0.1:{door.port}?{option}", tls=model.Tls(ca_file=str(ca)))
    with contextlib.nullcontext() if lets_in else pytest.raises(BrokerUnavailable, match="certificate"):
        assert ask(kind, settings, tmp_path, [PING]) == [b"PONG"]


def test_a_client_trusts_the_certificates_that_it_is_given(settings, papers):
    """`ca_file` alone is enough; without it the server is refused."""
    with Client(settings.url, ca_file=str(papers[0])) as client:
        assert client.counts() == {}
    with Client(settings.url) as stranger, pytest.raises(BrokerUnavailable, match="certificate"):
        stranger.counts()


@KINDS
def test_beside_ca_file_no_other_certificate_is_trusted(redis_server, papers, tmp_path, monkeypatch, kind):
    """The system's are not: whoever had a certificate that one of them has signed would pass for the server."""
    monkeypatch.setenv("SSL_CERT_FILE", str(papers[2]))  # OpenSSL then takes it for the system's
    door = Door(redis_server.path, *papers[2:4]).open()
    settings = model.Broker(url=f"rediss://127.0.0.1:{door.port}")
    assert ask(kind, settings, tmp_path, [PING]) == [b"PONG"]
    named = dataclasses.replace(settings, tls=model.Tls(ca_file=str(papers[0])))
    with pytest.raises(BrokerUnavailable, match=r"certificate.*check ca_file"):
        ask(kind, named, tmp_path, [PING])


@pytest.fixture
def spoilt(papers, tmp_path):
    """What is wrong -> (the files of a connection, the file that is to be named, what is said of it)."""
    ca, key, other, *_ = map(str, papers)
    text, gone, secret = (str(tmp_path / name) for name in ("text", "gone", "secret.key"))
    (tmp_path / "text").write_text("no PEM")
    words = ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", secret]
    subprocess.run(words, check=True, capture_output=True)
    return {
        "no ca_file": ({"ca_file": gone}, f"ca_file {gone} cannot be read: No such file"),
        "a directory": ({"ca_file": str(tmp_path)}, f"ca_file {tmp_path} cannot be read: Is a directory"),
        "a text": ({"ca_file": text}, f"ca_file {text} holds no certificate"),
        "no cert_file": ({"ca_file": ca, "cert_file": gone, "key_file": key}, f"cert_file {gone} cannot be read"),
        "no key_file": ({"ca_file": ca, "cert_file": ca, "key_file": gone}, f"key_file {gone} cannot be read"),
        "no certificate": ({"cert_file": text, "key_file": key}, f"cert_file {text} holds no certificate"),
        "no key": ({"cert_file": ca, "key_file": text}, f"key_file {text} holds no key"),
        "another's key": ({"cert_file": other, "key_file": key}, f"key_file {key} is not the key of cert_file {other}"),
        "a password": ({"cert_file": ca, "key_file": secret}, f"key_file {secret} holds no key"),
        "a key alone": ({"key_file": key}, f"key_file {key} is of no use without cert_file"),
    }


def test_a_file_that_cannot_be_used_is_named(settings, spoilt, tmp_path):
    """With what is wrong with it, to threads, to asyncio and to a client, and no word of whether Redis runs."""
    for files, said in spoilt.values():
        broken = model.Broker(url=settings.url, tls=model.Tls(**files))
        for attempt in (
            lambda broken=broken: ask("threads", broken, tmp_path, [PING]),
            lambda broken=broken: ask("asyncio", broken, tmp_path, [PING]),
            lambda files=files: Client(settings.url, **files).counts(),
        ):
            with pytest.raises(BrokerUnavailable) as told:
                attempt()
            assert said in str(told.value)
            assert "is it running" not in str(told.value)
