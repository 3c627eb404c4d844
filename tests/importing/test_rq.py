"""`fusiond import rq`: RQ itself loads each module."""

from tests.support.imported_file import DATA, import_application

CRON = {
    "cron_config.py": (DATA / "cron.rq.txt").read_text(),
    "atlas/__init__.py": "",
    "atlas/constants.py": "JOB_TIMEOUT = '90s'\n",
    "atlas/upkeep.py": "def enqueue_all(): pass\ndef ping(*args, **kwargs): pass\n",
    "atlas/config.py": "class get_settings:\n    ENV = 'production'\n",
    "atlas/logic/__init__.py": "",
    "atlas/logic/score.py": "def fill_cache(): pass\n",
}
WORKER = {"rq_settings.py": (DATA / "worker.rq.txt").read_text()}


def test_schedules_of_rq_cron(tmp_path):
    """Functions, and values of other modules; a file of whichever path."""
    for name in ("cron_config.py", str(tmp_path / "cron_config.py")):
        found = import_application("rq", tmp_path, CRON, name)
        cron, tasks = found.config.cron, found.config.tasks
        fill = tasks["fill_cache"]
        assert (fill.run, fill.queue, fill.failure_ttl, fill.timeout.soft) == (
            "atlas.logic.score.fill_cache", "score-cache", 86400, 90,
        )  # fmt: skip
        assert (cron["fill_cache"].schedule, cron["ping"].every, list(cron["ping"].args)) == ("0 12 * * *", 30, ["all"])
        assert (tasks["ping"].result_ttl, tasks["enqueue_all"].timeout.soft) == (600, 3600)
        assert (tasks["ping"].retry, tasks["local"].run) == ("none", "cron_config.local")


def test_what_cannot_be_carried_over_is_a_comment(tmp_path):
    """An argument that is an object, a function without a path, an option of a schedule."""
    text = (
        "from rq import cron\nimport shop\ncron.register(shop.run, 'a', args=(object(),), interval=5)\n"
        "cron.register(lambda: 1, 'a', interval=5)\ncron.register(shop.run, 'a', interval=5, meta={'k': 1}, ttl=-1)\n"
    )
    found = import_application("rq", tmp_path, {"jobs.py": text, "shop.py": "def run(): pass\n"}, "jobs")
    assert (set(found.config.tasks), set(found.config.cron)) == ({"run"}, {"run"})
    for sentence in (
        "schedule of shop.run: an argument is not JSON", "'jobs.<lambda>' is not a dotted path",
        "schedule of shop.run, meta: an entry of `cron` has no such key", "ttl -1: `expires` is a duration above 0",
    ):  # fmt: skip
        assert sentence in found.comments


def test_settings_and_schedules_become_one_file(tmp_path, monkeypatch):
    """Queues in their order, those of schedules behind them; an address of the environment, its password left out."""
    monkeypatch.setenv("REDIS_URL", "redis://u:hunter2@db:1/2")
    found = import_application("rq", tmp_path, CRON | WORKER, "rq_settings", "cron_config.py")
    group = found.config.workers["main"]
    assert (list(group.queues), group.order) == (["urgent", "pages", "score-cache", "upkeep"], "strict")
    assert found.config.broker.url == "redis://u@db:1/2"
    assert "hunter2" not in found.text
    assert "SENTRY_DSN: a decorator" in found.comments
    assert "secret@example" not in found.text


def test_settings_of_an_object_and_of_django_rq(tmp_path):
    """`module:object`; the timeout and the password of a queue."""
    text = (
        "class Web:\n    RQ_QUEUES = {'default': {'HOST': 'db', 'DB': 2, 'PASSWORD': 'hunter2',\n"
        "        'DEFAULT_TIMEOUT': 9}, 'low': {'URL': 'redis://db:6379/2', 'DEFAULT_TIMEOUT': 500}}\n"
    )
    found = import_application("rq", tmp_path, {"web.py": text}, "web:Web")
    assert (found.config.broker.url, set(found.config.queues)) == ("redis://db:6379/2", {"default", "low"})
    assert "low: {defaults: {timeout: " in found.text
    assert "RQ_QUEUES, default, PASSWORD: put it into a file" in found.comments
    assert "DEFAULT_TIMEOUT 9: write `timeout` into the tasks" in found.comments
    assert "hunter2" not in found.text
