"""
The words of other job runners, and ours for them.

One table. `validate` takes from it what to write in place of a key that is another runner's; the tables of
docs/moving.md are made of it by `python -m tests.moving_page`. Loaded only when a file has an unknown key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_POLICY: Final = "write `retry: NAME`, and under retry_policies NAME: {{max_attempts: …}}{}"
_ATTEMPTS: Final = _POLICY.format(", one more than the retries")
_BACKOFF: Final = "write `retry: NAME`, and under retry_policies NAME: {backoff: …, delay: …, max_delay: …, jitter: …}"
_LOST: Final = "remove it: a job of a lost worker runs again; `retry: none` has it fail instead"
_TIMEOUT: Final = "write timeout: 5m, or timeout: {soft: 5m, hard: 6m}"
_CRON: Final = 'write an entry of `cron`: {task: NAME, schedule: "0 2 * * *"}, or every: 90s'
_LIMIT: Final = "write `limit: {max_running: 5, rate_limit: 10/s}` of the task, or the two keys of its queue"
_SIZE: Final = "write `processes` of a worker group; `concurrency` with `executor: thread` or `asyncio`"
_UNIQUE: Final = "write unique: {by: [kwargs.id], until: ended}, or for: 10m"
_FLOW: Final = "write a flow, or after= of the call"
_CALL: Final = "it is an option of a call: jobs.options(delay=, at=, priority=, id=).enqueue(…)"
_NOTHING: Final = "remove it: there is nothing to set"


@dataclass(frozen=True, slots=True)
class Word:
    """One row of a runner's table."""

    #: what the runner calls it, as the page shows it
    theirs: str
    #: what it is here, as the page shows it
    ours: str
    #: keys that somebody may write in the file
    keys: str = ""
    #: what to write in place of these keys
    remedy: str = ""


WORDS: Final[Mapping[str, tuple[Word, ...]]] = MappingProxyType({
    "Celery": (
        Word("`@app.task`", "an entry under `tasks:` with `run: module.function`; the function needs no decorator"),
        Word("`task.delay(1, a=2)`", '`jobs.enqueue("task", 1, a=2)`'),
        Word(
            "`apply_async(countdown=, eta=, expires=, priority=, queue=, task_id=)`",
            "`jobs.options(delay=, at=, expires=, priority=, queue=, id=).enqueue(…)`; in `priority`, higher runs first",
            "countdown eta task_id", _CALL,
        ),
        Word("`task_routes`", "`queue:` of the task", "task_routes routes routing_key exchange",
             "write `queue: NAME` of the task"),
        Word("`task_queues`, `task_default_queue`", "`queues:`; `default` always exists", "task_queues task_default_queue",
             "declare queues under `queues`; `default` always exists"),
        Word(
            "`max_retries`, `autoretry_for`, `dont_autoretry_for`",
            "`max_attempts` (one more than `max_retries`), `retry_on` and `give_up_on` of a retry policy",
            "max_retries retries retry_limit attempts max_attempts max_tries", _ATTEMPTS,
        ),
        Word(
            "`retry_backoff`, `retry_backoff_max`, `retry_jitter`, `default_retry_delay`",
            "`backoff` and `delay`, `max_delay`, `jitter` of a retry policy",
            "retry_backoff retry_backoff_max retry_jitter default_retry_delay retry_delay backoff retry_policy", _BACKOFF,
        ),
        Word(
            "`raise self.retry(countdown=…)`",
            "raise an exception that the policy's `retry_on` names; the policy sets the delay, or the exception's attribute "
            "`retry_after`",
        ),
        Word('`rate_limit="10/s"`, for each worker', "`limit: {rate_limit: 10/s}` of the task, for all workers together",
             "rate_limit rate_limits task_default_rate_limit", _LIMIT),
        Word("`worker -P gevent -c 100`, `-P threads`",
             "`isolation: process`, `executor: asyncio` or `thread`, `concurrency: 100`", "pool worker_pool",
             "write isolation: process, executor: thread and concurrency: 100"),
        Word("`worker_concurrency`, `worker -Q mail,default -c 4`",
             "a group with `queues: [mail, default]` and `processes: 4`",
             "concurrency worker_concurrency max_concurrency", _SIZE),
        Word("`bind=True`, `self.request.id`, `.retries`",
             '`pass_job: job`; `job["id"]`, `job["attempt"]` (1 in the first attempt)', "bind", "write pass_job: job"),
        Word('`self.update_state(state="PROGRESS", meta=…)`', '`pass_job: job`; `job.progress(0.4, "rows 2 of 5")`'),
        Word("`soft_time_limit`, `time_limit`", "`timeout: {soft: …, hard: …}`; the exception is `SoftTimeout`",
             "time_limit soft_time_limit task_time_limit task_soft_time_limit hard_timeout soft_timeout", _TIMEOUT),
        Word("`acks_late=True`, `reject_on_worker_lost=True`", "always so",
             "acks_late task_acks_late reject_on_worker_lost task_reject_on_worker_lost", _LOST),
        Word("`acks_late=False`, the default", "`retry: none`: begun at most once"),
        Word("`ignore_result`, `result_expires`", "`result: ignore`, `result_ttl`", "ignore_result task_ignore_result",
             "write result: ignore"),
        Word("`result_backend`", "results are in the broker's Redis, for `result_ttl`",
             "result_backend result_expires result_timeout", "write `result_ttl` of the task; results are in the broker"),
        Word("`AsyncResult(id).get(timeout=5)`, `.status`", '`jobs.job("queue/id").result(timeout=5)`, `.status()`'),
        Word("`revoke(id, terminate=True)`", "`job.cancel()`, `fusiond job cancel`"),
        Word("beat, `crontab(hour=2)`", "`cron:`; every daemon may have the entry, each tick has one job",
             "beat_schedule crontab beat periodic periodic_tasks", _CRON),
        Word("`worker_max_tasks_per_child`, `worker_max_memory_per_child`",
             "`max_jobs`, `max_memory`, with `isolation: process`",
             "max_tasks_per_child worker_max_tasks_per_child max_memory_per_child worker_max_memory_per_child",
             "write max_jobs: 1000 or max_memory: 512MiB of the worker group"),
        Word("`worker_prefetch_multiplier`, `visibility_timeout`", "nothing to set",
             "worker_prefetch_multiplier prefetch_multiplier prefetch visibility_timeout", _NOTHING),
        Word("`broker_url`", "`broker: {url: …}`", "broker_url", "write broker: {url: redis://localhost}"),
        Word("`chain`, `group`, `chord`", "a [flow](flows.md); `jobs.options(after=[…])`", "chain chord link", _FLOW),
        Word("signals such as `task_failure`", "`on_success` and `on_failure`; a decorator around your function"),
        Word("`task_always_eager` in tests", "call the function"),
        Word("`celery inspect`, Flower", "`fusiond status -W`, `fusiond top`, the [dashboard](dashboard.md)"),
    ),
    "RQ": (
        Word('`queue.enqueue(shop.send_otp, "+49…", code="1")`',
             '`jobs.enqueue("send_otp", "+49…", code="1")`, or with the function in place of the name', "func function",
             "write run: package.module.function"),
        Word("`enqueue_in(timedelta(minutes=5), …)`, `enqueue_at(…)`", '`jobs.enqueue_in("5m", …)`, `jobs.enqueue_at(…)`'),
        Word("`job_timeout`, `DEFAULT_TIMEOUT`", "`timeout` of the task, or of `defaults.tasks`",
             "job_timeout default_timeout", _TIMEOUT),
        Word("`result_ttl`, `failure_ttl`, `ttl`", "`result_ttl`, `failure_ttl`, `expires` of the task", "ttl",
             "write expires: 5m for a job that waits, result_ttl: 500s for one that has ended"),
        Word(
            "`Retry(max=3, interval=[10, 60])`",
            "a retry policy with `max_attempts: 4` and `backoff: [10s, 1m]`; without `retry_on`, every exception is retried",
            "retry_intervals", _BACKOFF,
        ),
        Word("`job_id=`, `at_front=True`, `meta=`", "`id=` or `key=`, a higher `priority=`, `meta=`", "job_id at_front", _CALL),
        Word("`depends_on=`", "`jobs.options(after=[…])`, or a [flow](flows.md)", "depends_on", _FLOW),
        Word("`get_current_job()`", "`pass_job: job`"),
        Word('`job.meta["progress"] = …; job.save_meta()`', '`pass_job: job`; `job.progress(0.4, "rows 2 of 5")`'),
        Word("`rq worker high default`",
             "a group with `queues: [high, default]` and `order: strict`; or one queue with priorities"),
        Word("`rq worker-pool -n 4`", "`processes: 4`", "num_workers worker_count", _SIZE),
        Word("`Worker`, `SimpleWorker`", "`isolation: fork`, `isolation: process`", "worker_class",
             "write isolation: fork, or isolation: process"),
        Word("`rq cron`, rq-scheduler: `cron=`, `interval=`", "`cron:` with `schedule:` or `every:`", "cron_string interval",
             _CRON),
        Word("`FailedJobRegistry`, `rq requeue --all`", "`fusiond job list --status failed`, `fusiond requeue --all`"),
        Word("`rq suspend`, `rq resume`", "`fusiond suspend --all`, `fusiond resume --all`"),
        Word("`on_success`, `on_failure` callbacks", "`on_success`, `on_failure` of the task"),
        Word("`REDIS_URL`, `RQ_QUEUES`", "`broker: {url: …}`", "redis_url redis", "write broker: {url: redis://localhost}"),
        Word("`rq info`", "`fusiond status`"),
    ),
    "Sidekiq": (
        Word("a class with `include Sidekiq::Job` and `perform`", "an entry under `tasks:` and a function", "class klass",
             "write run: package.module.function; fusiond.tasks.command runs a program"),
        Word("`HardJob.perform_async(1)`, `perform_in`, `perform_at`",
             '`jobs.enqueue("hard", 1)`, `enqueue_in`, `enqueue_at`'),
        Word("`perform_bulk`", "`jobs.enqueue_many`"),
        Word("`sidekiq_options queue:, retry: 5`", "`queue:`, and a retry policy with `max_attempts: 6`", "sidekiq_options",
             "write queue and retry of the task"),
        Word("25 retries over three weeks, the default", "declare it: `{max_attempts: 26, delay: 15s, max_delay: 40h}`"),
        Word("`sidekiq_retry_in`", "`backoff`, `delay` or a list of delays; or the exception's attribute `retry_after`",
             "sidekiq_retry_in retry_in", _BACKOFF),
        Word("the retry set, the scheduled set", "jobs with status `scheduled`"),
        Word("the dead set", "jobs with status `failed`, for `failure_ttl`", "dead dead_max_jobs dead_timeout_in_seconds",
             "write failure_ttl: 30d"),
        Word("`concurrency: 5`", "`processes: 5`; or `isolation: process`, `executor: thread`, `concurrency: 5`"),
        Word("`:queues: [[critical, 3], [default, 1]]`",
             "`queues: {critical: 3, default: 1}`; a list with `order: strict` for strict order", "weight weights",
             "write queues: {critical: 3, default: 1} of the worker group"),
        Word("`-t 25`, `:timeout: 25`", "`drain_timeout: 25s`", "shutdown_timeout graceful_timeout stop_timeout",
             "write drain_timeout: 25s of the worker group"),
        Word("`:limits:` of sidekiq-limit_fetch", "`max_running` of a queue", "limits process_limits",
             "write max_running: 5 of the queue"),
        Word("`TSTP`, to take no new jobs", "`fusiond suspend --all`"),
        Word("sidekiq-cron, sidekiq-scheduler, periodic jobs", "`cron:`", "cron schedule scheduler", _CRON),
        Word("unique jobs: `unique_for`, `unique_until: :start`",
             "[`unique`](producers.md#unique-jobs) of the task: `for`, `until: started`",
             "unique_for unique_until lock lock_ttl singleton", _UNIQUE),
        Word("`expires_in`", "`expires`", "expires_in", "write expires: 5m"),
        Word("super_fetch", "always so"),
        Word("rate limiters: concurrent, window, bucket", "`max_running` and `rate_limit` of a queue, `limit` of a task",
             "limiter throttle", _LIMIT),
        Word("batches", "a [flow](flows.md) with `for_each`", "batch", _FLOW),
        Word("client and server middleware", "a function around `enqueue`; a decorator around the task"),
    ),
    "Solid Queue": (
        Word("`workers:` with `threads: 3`, `processes: 2`",
             "a worker group; each thread is one of its `processes`, or `executor: thread`", "threads", _SIZE),
        Word("`queues: [real_time, background]`", "`queues: [real_time, background]` and `order: strict`"),
        Word("`dispatchers:`, `polling_interval`, `batch_size`", "nothing to set",
             "dispatchers polling_interval batch_size", _NOTHING),
        Word("config/recurring.yml, `schedule: every hour`", '`cron:` with `schedule: "0 * * * *"` or `every: 1h`',
             "recurring recurring_tasks", _CRON),
        Word("`limits_concurrency to: 1, key: …`", "`limit: {by: […], max_running: 1}` of the task",
             "limits_concurrency concurrency_key concurrency_limit", _LIMIT),
        Word("`retry_on`, `discard_on` of Active Job", "`retry_on`, `give_up_on` of a retry policy", "discard_on",
             "write `give_up_on` of a retry policy"),
        Word("`priority`, smaller first", "`priority`, higher first"),
    ),
    "cron": (
        Word("`0 2 * * * command`", "an entry of `cron:` over [`fusiond.tasks.command`](tasks.md#fusiondtaskscommand)"),
        Word("`CRON_TZ`", "`timezone` of the entry", "cron_tz tz", "write timezone: Europe/Berlin of the entry"),
        Word("`RANDOM_DELAY`", "`jitter` of the entry", "random_delay", "write jitter: 5m of the entry"),
        Word("`MAILTO`", "`on_failure` of the task; the output is in the log", "mailto",
             "write on_failure: {webhook: …} of the task"),
        Word("the user of a line of /etc/crontab", "`user` of a worker group"),
        Word("`flock -n` around a command", "`overlap: skip`, the default"),
        Word("anacron", "`missed: last`", "catchup catch_up backfill", "write missed: last, or missed: all, of the entry"),
        Word("`@reboot`", "a systemd unit of its own"),
    ),
    "Kubernetes": (
        Word("`concurrencyPolicy: Forbid`, `Replace`, `Allow`", "`overlap: skip`, `replace`, `allow`", "concurrencyPolicy",
             "write overlap: skip, replace or allow"),
        Word("`startingDeadlineSeconds: 200`", "`starting_deadline: 200s`", "startingDeadlineSeconds",
             "write starting_deadline: 200s"),
        Word("`activeDeadlineSeconds: 900`", "`timeout: 15m` of the task, for each attempt",
             "activeDeadlineSeconds deadline", _TIMEOUT),
        Word("`backoffLimit: 6`, `restartPolicy`", "a retry policy with `max_attempts: 7`", "backoffLimit restartPolicy",
             _ATTEMPTS),
        Word("`suspend: true`", "`suspended: true`", "suspend paused", "write suspended: true"),
        Word("`ttlSecondsAfterFinished`, `successfulJobsHistoryLimit`", "`result_ttl`, `failure_ttl` of the task",
             "ttlSecondsAfterFinished successfulJobsHistoryLimit failedJobsHistoryLimit",
             "write result_ttl: 1d and failure_ttl: 30d of the task"),
        Word("`replicas: 4`, an autoscaler", "`processes: 4`, `processes: {min: 2, max: 16}`", "replicas",
             "write processes: 4 of the worker group"),
        Word("`env`, `envFrom`", "`environment`, `environment_file` of the worker group", "env envFrom",
             "write environment: {NAME: value} of the worker group"),
        Word("`terminationGracePeriodSeconds`", "`drain_timeout` of the worker group", "terminationGracePeriodSeconds",
             "write drain_timeout: 30s of the worker group"),
        Word("`nodeSelector`", "`hosts` of the worker group", "nodeSelector", "write hosts: [batch-*] of the worker group"),
    ),
})  # fmt: skip


def remedy_of(key: str) -> str:
    """What to write in place of a key that is a word of another runner; empty if it is none."""
    return _REMEDIES.get(_folded(key), "")


def _folded(key: str) -> str:
    """`:max_retries`, `maxRetries`, `MAX-RETRIES` are one word."""
    return key.casefold().replace("_", "").replace("-", "").lstrip(":")


#: the first row that has a key counts
_REMEDIES: Final = {
    _folded(key): word.remedy for words in [*WORDS.values()][::-1] for word in words[::-1] for key in word.keys.split()
}
