"""`fusiond dev`: the file of production, small, by itself, and code that runs as it is saved."""

import json
from pathlib import Path

import pytest

from fusiond import paths
from tests.support.running import PATIENCE, until

MORE = "logging: {format: json}\nqueues: {shop: {}}\n"


@pytest.fixture
def daemon(daemon):
    daemon.verb = "dev"
    daemon.url = f"unix://{paths.redis_socket(daemon.sockets)}"
    for name in ("shop", "shop/parts", "side", "side/.venv"):
        (daemon.app / name).mkdir()
    (daemon.app / "shop" / "shop.py").write_text("def price():\n    from parts import inner\n    return inner.PRICE\n")
    (daemon.app / "shop" / "parts" / "inner.py").write_text("PRICE = 1\n")
    shop = f"shop: {{queues: [shop], processes: 4, isolation: process, directory: {daemon.app}/shop}}"
    body = daemon.body(f"main: {{queues: [default], directory: {daemon.app}/side/..}}\n  {shop}", more=MORE)
    body = body.replace("{url: 'embedded'}", '{url: "redis://production.invalid/"}')
    daemon.start(body.replace("tasks:\n", "tasks:\n  price: {run: shop.price, queue: shop}\n"))
    return daemon


def price(daemon):
    return daemon.client().options(queue="shop").enqueue("price").result(timeout=PATIENCE)


def save(daemon, name, text):
    """As an editor does that writes a new file and renames it over the old."""
    fresh = daemon.app / "fresh.tmp"
    fresh.write_text(text)
    fresh.replace(daemon.app / name)


def test_code_that_is_saved_runs(daemon):
    """In a module further down, too; a mistake is refused and the old code serves until it is mended."""
    assert price(daemon) == 1
    save(daemon, "shop/parts/inner.py", "PRICE = 2\n")
    until(lambda: price(daemon) == 2, daemon.text)
    save(daemon, "shop/shop.py", "def price(:\n")
    until(lambda: (daemon.status()["reload"] or {}).get("result") == "refused", daemon.text)
    assert "shop.py" in daemon.status()["reload"]["reason"]
    # In one line of the log, whoever else has noticed it.
    assert daemon.text().count("SyntaxError") == 1, daemon.text()
    assert price(daemon) == 2
    save(daemon, "shop/shop.py", "def price():\n    return 3\n")
    until(lambda: price(daemon) == 3, daemon.text)
    # A module in a directory that was not there at the start.
    (daemon.app / "shop" / "more").mkdir()
    save(daemon, "shop/more/deep.py", "PRICE = 4\n")
    save(daemon, "shop/shop.py", "def price():\n    from more import deep\n    return deep.PRICE\n")
    until(lambda: price(daemon) == 4, daemon.text)
    save(daemon, "shop/more/deep.py", "PRICE = 5\n")
    until(lambda: price(daemon) == 5, daemon.text)


def test_only_code_counts(daemon):
    """Neither what is compiled or installed, nor other files; the group whose directory it is alone is replaced."""
    for name in ("shop/notes.txt", "side/.venv/installed.py", "side/.hidden.py~"):
        save(daemon, name, "x = 1\n")
    save(daemon, "shop/shop.py", "def price():\n    return 3\n")
    until(lambda: price(daemon) == 3, daemon.text)
    # main's directory is above shop's; the replaced groups end when they have drained.
    until(lambda: daemon.names() == {"redis", "scheduler", "worker:main@2", "worker:shop@2"}, daemon.names)
    # Its outcome may come after the end of the programs that it has replaced.
    until(lambda: daemon.status()["reloads"] == {"applied": 1}, daemon.text)
    assert daemon.status()["generation"] == 2


def test_nothing_of_it_is_gone_on_from(daemon):
    """Neither its history nor its Redis is that of the daemon that serves."""
    assert daemon.status()["snapshot"] == str(daemon.state / "dev" / "current.json")
    assert {entry.name for entry in daemon.state.iterdir()} == {"dev"}


def test_the_file_is_made_small(daemon):
    """One child each, a broker of its own, logs for people; a saved file is taken in, and stays small."""
    (snapshot,) = [daemon.status()["snapshot"]]
    config = json.loads(Path(snapshot).read_text())["config"]
    assert {name: group["processes"] for name, group in config["workers"].items()} == {"main": 1, "shop": 1}
    assert (config["broker"]["url"], config["logging"]["format"]) == ("embedded", "text")
    until(lambda: f"export FUSION_URL='{daemon.url}?namespace=fusion'" in daemon.text(), daemon.text)
    daemon.file.write_text(daemon.file.read_text().replace("processes: 4", "processes: 4, max_jobs: 7"))
    until(lambda: daemon.status()["generation"] == 2, daemon.text)
    config = json.loads(Path(snapshot).read_text())["config"]["workers"]["shop"]
    assert (config["processes"], config["max_jobs"]) == (1, 7)


def test_a_user_that_only_another_machine_has_is_none(daemon):
    """Its group runs all the same."""
    daemon.file.write_text(
        daemon.file.read_text().replace("processes: 4", "processes: 4, max_jobs: 9, user: of-production")
    )
    until(lambda: daemon.status()["generation"] == 2, daemon.text)
    assert price(daemon) == 1
