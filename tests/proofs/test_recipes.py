"""The Python of the docs runs: the applications of docs/recipes.md as they are, the rest page by page."""

import hashlib
import os
import re
import sqlite3
import subprocess
import sys

import pytest

from tests.docs.blocks import BLOCKS, FENCED, ROOT
from tests.docs.desk import Desk
from tests.support.running import until


def python_of(page):
    """Its blocks of Python, in order."""
    return [block.text for block in BLOCKS if block.page == page and block.language == "python"]


def recipe(heading, daemon, *, without=()):
    """Write the files of a section of docs/recipes.md, apart from some; returns its fusion.yaml."""
    section = (ROOT / "docs" / "recipes.md").read_text().split(f"\n## {heading}\n")[1].partition("\n## ")[0]
    files = {}
    for before, match in _blocks_after_text(section):
        names = re.findall(r"`([\w./]+\.(?:py|yaml))`", before.rpartition("\n\n")[2])
        if names:
            files[names[0]] = match
    for name in files.keys() - set(without):
        path = daemon.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if name == "shop/settings.py" else "") + files[name])
    return files["fusion.yaml"].replace("version: 1\n", "")


def _blocks_after_text(section):
    end = 0
    for match in FENCED.finditer(section):
        yield section[end : match.start()].strip(), match[2]
        end = match.end()


def python(directory, *words):
    """What a command of this environment's Python prints, in the project."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FUSION", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, *words], cwd=directory, env=own, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_flask_application(daemon):
    """An order is answered with its job, whose task sees the application's configuration."""
    daemon.start(recipe("Flask", daemon))
    said = python(
        daemon.directory,
        "-c",
        "from shop import app, jobs\nclient = app.test_client()\n"
        "name = client.post('/orders', json={'email': 'ada@example.com'}).get_json()['job']\n"
        "print(jobs.job(name).result(timeout=60), client.get(f'/jobs/{name}').get_json())\n"
        "print(client.get('/jobs/none').status)",
    )
    assert "{'to': 'ada@example.com', 'from': 'shop@example.com'} {'status': 'finished'}" in said
    assert "404 NOT FOUND" in said


def test_the_django_application(daemon):
    """An order is confirmed once it is committed, and the entry of cron clears sessions."""
    python(daemon.directory, "-m", "django", "startproject", "shop", ".")
    python(daemon.directory, "manage.py", "startapp", "orders")
    settings = daemon.directory / "shop" / "settings.py"
    # As the page says: a project of Django 6.1 or newer shows its mail without that line.
    new = "MAILERS" in settings.read_text()
    file = recipe("Django", daemon, without=["shop/settings.py"] if new else [])
    settings.write_text(settings.read_text().replace("INSTALLED_APPS = [", 'INSTALLED_APPS = [\n    "orders",'))
    python(daemon.directory, "manage.py", "makemigrations")
    python(daemon.directory, "manage.py", "migrate")
    daemon.start(file)
    said = python(
        daemon.directory,
        "manage.py",
        "shell",
        "-c",
        "from django.test import Client\nfrom orders.models import Order\nfrom orders.views import jobs\n"
        "answer = Client(SERVER_NAME='localhost').post('/orders/', {'email': 'ada@example.com'})\n"
        "job = jobs.job(jobs.options(key=f'order-{answer.json()[\"order\"]}').enqueue('confirm', 1).name)\n"
        "job.result(timeout=60)\n"
        "print(answer.status_code, Order.objects.get().confirmed)\n"
        "print(jobs.enqueue('command', 'clearsessions').result(timeout=60))",
    )
    assert "202 True\nNone" in said
    assert daemon.text().count("Subject: Order 1") == 1


def test_the_fastapi_application(daemon):
    """A thumbnail is answered with its job, and the job with its result."""
    daemon.start(recipe("FastAPI", daemon))
    said = python(
        daemon.directory,
        "-c",
        "from fastapi.testclient import TestClient\nfrom shop import app\n"
        "with TestClient(app) as client:\n"
        "    name = client.post('/thumbnails?image=cat.png').json()['job']\n"
        "    print([client.get(f'/thumbnails/{name}').json() for _ in range(3)][-1])\n"
        "    print(client.get('/thumbnails/none').status_code)",
    )
    assert "{'result': {'image': 'cat.png', 'width': 120}}\n404" in said


@pytest.fixture(scope="module")
def desk():
    desk = Desk()
    yield desk
    desk.close()


def test_the_code_of_the_flows(desk):
    """The methods of a run; it ends, and with a result."""
    own = {"jobs": desk.client}
    exec(python_of("flows.md")[0].replace("run.status()", "statuses = [run.status()]"), own)
    assert own["statuses"][0] in ("running", "finished")


def test_the_code_of_the_producers(desk):
    """Calls that wait for others, and what is to be found after one that was not answered."""
    replace, after, many = python_of("producers.md")[1:]
    own = {"jobs": desk.client, "document": "a", "urls": ["https://example.com"], "rows": [("send_otp",), ("nothing",)]}
    exec(replace, own)
    exec(after, own)
    until(lambda: own["index"].status() == "finished", desk.text)
    exec(many, own)


def test_the_code_of_the_ready_made_tasks():
    """A signature is ours if our secret has made it."""
    own = {}
    exec(python_of("tasks.md")[0], own)
    signed = own["hmac"].new(b"secret", b"id.17.body", hashlib.sha256).digest()
    headers = {"webhook-id": "id", "webhook-timestamp": "17"}
    headers["webhook-signature"] = "v1," + own["base64"].b64encode(signed).decode()
    assert own["is_ours"](b"secret", headers, b"body")
    assert not own["is_ours"](b"other", headers, b"body")


class _Job(dict):
    """What a task gets as `job`."""

    def __init__(self):
        super().__init__(id="default/1", attempt=1, deadline=9.0, key=None, meta={})
        self.told = []

    def progress(self, share, message):
        self.told.append((share, message))


def test_the_code_of_the_tasks(tmp_path, monkeypatch, desk):
    """Each function does what its page says of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUSION_URL", desk.url)
    simple, progress, logged, connected, snoozed, enqueueing, tracked = python_of("writing-tasks.md")
    own, job = {"report": (reported := []).append}, _Job()
    exec(simple, own)
    own["charge"](7, job)
    exec(progress, own)
    own["charge_all"](["a", "b"], job)
    assert job.told == [(0.0, "order a"), (0.5, "order b")]
    exec(logged, {**own, "__name__": "shop"})
    with sqlite3.connect("shop.db") as database:
        database.execute("create table charges (job text primary key, ordered)")
    exec(connected, own)
    assert [own["charge"](7, job), own["charge"](7, job)] == [{"new": True}, {"new": False}]
    exec(snoozed, own)
    assert own["NotReady"](5).retry_after == 5
    exec(enqueueing, own)
    own["announce"](7)
    exec(tracked, own)
    with pytest.raises(ZeroDivisionError):
        own["tracked"](lambda: 1 / 0)()
    assert [type(error) for error in reported] == [ZeroDivisionError]
