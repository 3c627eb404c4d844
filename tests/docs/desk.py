"""A daemon that has what the commands of the docs name, and the commands as a reader would type them."""

import functools
import re
import shlex
import sqlite3
import sys
from pathlib import Path

from fusiond.broker.call import as_is, plain
from fusiond.client import Client
from fusiond.config.model import Outbox
from fusiond.outbox.migrations import migration
from tests.support.fusiond_command import fusiond
from tests.support.running import Running, until

FILE = """
broker: {url: embedded}
web: {listen: "127.0.0.1:0"}
events: {}
job_output: {}
defaults: {workers: {drain_timeout: 1s}}
retry_policies: {patient: {max_attempts: 5, delay: 2s, retry_on: [ConnectionError]}}
queues: {reports: {}, invoices: {}, fast: {}}
tasks:
  send_otp: {run: fusiond.tasks.echo}
  hello: {run: fusiond.tasks.echo}
  charge: {run: fusiond.tasks.echo}
  fetch: {run: fusiond.tasks.echo}
  clean: {command: [echo, $(days)], parameters: {days: {pattern: "[0-9]+"}}}
  wait: {command: [sleep, "1000"]}
  report: {run: fusiond.tasks.echo, queue: reports}
  index: {run: fusiond.tasks.echo}
  reindex: {run: fusiond.tasks.echo, unique: {by: [args.0], until: started, on_conflict: replace}}
  clean_up: {run: fusiond.tasks.echo}
  invoice: {run: fusiond.tasks.echo, queue: reports}
  broken: {command: ["false"], queue: reports, retry: none}
  only_one: {run: fusiond.tasks.echo, queue: reports, unique: {by: [args.0], until: ended}}
flows:
  nightly_etl: {queue: reports, steps: {load: {task: report, inputs: {day: input.day}}}}
  endless: {queue: reports, steps: {wait: {task: wait}}}
cron: {nightly: {task: report, schedule: "0 2 * * *", timezone: Europe/Berlin, inputs: {day: tick.date}}}
outboxes: {shop: {url: "sqlite:///DIRECTORY/shop.db", tasks: [send_otp]}}
workers: {main: {queues: "*", processes: 2}, reports: {queues: [reports], processes: 2}}
"""
#: what `fusiond import` reads
IMPORTED = {
    "etc/crontab": "0 2 * * * root /usr/bin/backup\n",
    "etc/cron.d/shop": "*/5 * * * * shop /srv/shop/bin/poll\n",
    "config/sidekiq.yml": ":concurrency: 5\n:queues: [default, [mail, 2]]\n",
    "config/schedule.yml": "report: {cron: '0 2 * * *', class: ReportJob}\n",
    "config/queue.yml": "production: {workers: [{queues: '*', threads: 3, processes: 2}]}\n",
    "config/recurring.yml": "production: {report: {class: ReportJob, schedule: every day at 4:15am}}\n",
    "shop/__init__.py": "",
    "shop/celery.py": "from celery import Celery\napp = Celery(broker='redis://localhost')\n",
    "shop/tasks.py": "@app.task\ndef send(): pass\n",
    "shop/mail.py": "@app.task\ndef mail(): pass\n",
    "shop/rq_settings.py": "QUEUES = ['high', 'default']\n",
    "shop/cron_config.py": "from rq import cron\ncron.register(print, queue_name='default', cron='0 2 * * *')\n",
    "rq_settings.py": "QUEUES = ['high', 'default']\n",
    "cron_config.py": "from rq import cron\ncron.register(print, queue_name='default', cron='0 2 * * *')\n",
    "report.yaml": "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: report}\nspec:\n  schedule: '0 2 * * *'\n"
    "  jobTemplate: {spec: {template: {spec: {restartPolicy: Never,\n"
    "    containers: [{name: a, image: b, command: [date]}]}}}}\n",
}
TESTS = "version: 1\ntests: [{name: a, for: 1m, expect: [{cron: nightly, ticks: {exactly: 0}}]}]\n"
JOBS_ON_STDIN = '{"task": "send_otp", "args": ["+4912345"]}\n{"task": "report", "kwargs": {"region": "eu"}}\n'
#: `record` makes the file that the docs name
LOAD = '{"task": "send_otp", "rate": "10/1m", "for": "1m", "takes": "80ms"}\n'


class Desk(Running):
    """The daemon, and a directory in which the commands are typed."""

    def __init__(self):
        super().__init__()
        text = FILE.replace("DIRECTORY", str(self.directory))
        with self._shop() as shop:
            shop.executescript(migration(Outbox(("send_otp",)), "sql", is_postgresql=False))
        self.start(text)
        self.reload(text.replace("processes: 2", "processes: 3"))
        self.client = Client(self.url)
        for name, text in (IMPORTED | {"cleanup.yaml": IMPORTED["report.yaml"]}).items():
            self._put(name, text)
        for name in ("tmp/new.yaml", "new.yaml", "etc/fusion.yaml"):
            self._put(name, self.file.read_text())
        for name in ("fusion", "etc/fusion", "a", "b"):
            self._put(f"{name}.tests.yml", TESTS)
        self._put("jobs.jsonl", JOBS_ON_STDIN)
        self._put("recorded.jsonl", LOAD)
        self._empty = 0

    def _put(self, name, text):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def type(self, line):
        """Run a line of the docs; how it ended. What it is piped from, or into, does not run."""
        line, _, given = line.partition(" < ")
        words = shlex.split(line.rpartition(" | ")[2].partition(" > ")[0], comments=True)
        words = words[max(number for number, word in enumerate(words) if Path(word).name == "fusiond") + 1 :]
        given = self.directory.joinpath(given.strip()).read_text() if given else "0 2 * * * /usr/bin/backup\n"
        cwd = self._new_directory() if words[0] == "init" else self.directory
        if words[0] == "record":
            self._job(words[:1])  # something must have been counted
        else:
            words = ["recorded.jsonl" if word == "load.jsonl" else word for word in words]
        return fusiond(*[self._own(word, words) for word in words], cwd=cwd, given=given)

    def _new_directory(self):
        self._empty += 1
        path = self.directory / f"empty{self._empty}"
        path.mkdir()
        return path

    def _own(self, word, words):
        """The same of this daemon: a job, a run, a file."""
        if word == "/etc/fusion.yaml":
            return str(self.file)
        if word == "/srv/shop":
            return str(self.directory)
        if word == ".venv/bin/python":
            return sys.executable
        if word.startswith(("/etc/", "/tmp/")):
            return str(self.directory) + word
        if words[:2] == ["outbox", "drop"] and re.fullmatch("[0-9a-f-]{36}", word):
            return self._refused(word)
        if word == "STEP":
            return "wait"
        if word == "RUN":
            if words[:2] == ["flow", "requeue"]:
                # The command before has canceled it, which takes until the child of its step has been killed.
                until(lambda: self.client.flow_run(self._run).status() == "canceled", self.text)
            return self._run
        if word == "JOB" or re.fullmatch(r"(reports|sms)/[\w:-]{12,}", word):
            return self._broken() if words[0] == "broken" else self._job(words[:2])
        return word

    def _shop(self):
        """The database of the outbox."""
        return sqlite3.connect(self.directory / "shop.db", timeout=20)

    def _refused(self, row):
        """The id of a row that is refused when the command comes."""
        with self._shop() as shop:
            values = "(?, 'unknown', 1, 'it is unknown')"
            shop.execute(
                f"INSERT OR REPLACE INTO fusion_outbox (id, task, refused_at, refused_because) VALUES {values}", [row]
            )
        return row

    def _job(self, verb):
        """One that the command can be used on."""
        if verb[0] in ("requeue", "discard") or verb == ["job", "delete"]:
            return self._ended(self.client.enqueue("broken"), "failed")
        if verb[0] == "unique":
            return self.client.options(delay="1h").enqueue("only_one", str(self._empty)).name
        if verb in (["job", "cancel"], ["job", "priority"]):
            return self.client.options(delay="1h").enqueue("report").name
        return self._ended(self.client.enqueue("report"), "finished")

    def _ended(self, job, status):
        until(lambda: job.status() == status, self.text)
        return job.name

    def _broken(self):
        body = f"{{not JSON {self._empty}"
        self.client._connection.run(plain(as_is, "LPUSH", "fusion:{reports}:inbox", body))
        return until(self._broken_name, self.text)

    def _broken_name(self):
        found = fusiond("broken", "list", "--queue", "reports", "--json", cwd=self.directory).json
        return found[0]["body"] if found else None

    @functools.cached_property
    def _run(self):
        """One that goes on until a command ends it."""
        return self.client.run_flow("endless").name

    def close(self):
        self.client.close()
        super().close()
