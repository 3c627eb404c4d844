"""
What to write in place of a key that is a word of another job runner.

docs/moving.md has the words of each runner, also those that are no keys. Loaded only when a file has an unknown key.
"""

from typing import Final

#: what to write → keys of Celery, RQ, Sidekiq, Solid Queue, cron and Kubernetes that mean it
KEYS: Final = {
    "it is an option of a call: jobs.options(delay=, at=, priority=, id=).enqueue(…)":
        "countdown eta task_id job_id at_front",
    "write `queue: NAME` of the task": "task_routes routes routing_key exchange",
    "declare queues under `queues`; `default` always exists": "task_queues task_default_queue",
    "write `retry: NAME`, and under retry_policies NAME: {max_attempts: …}, one more than the retries":
        "max_retries retries retry_limit attempts max_attempts max_tries backoffLimit restartPolicy",
    "write `retry: NAME`, and under retry_policies NAME: {backoff: …, delay: …, max_delay: …, jitter: …}":
        "retry_backoff retry_backoff_max retry_jitter default_retry_delay retry_delay backoff retry_policy "
        "retry_intervals sidekiq_retry_in retry_in",
    "write `limit: {max_running: 5, rate_limit: 10/s}` of the task, or the two keys of its queue":
        "rate_limit rate_limits task_default_rate_limit limiter throttle limits_concurrency concurrency_key "
        "concurrency_limit",
    "write isolation: process, executor: thread and concurrency: 100": "pool worker_pool",
    "write `processes` of a worker group; `concurrency` with `executor: thread` or `asyncio`":
        "concurrency worker_concurrency max_concurrency num_workers worker_count threads",
    "write pass_job: job": "bind",
    "write timeout: 5m, or timeout: {soft: 5m, hard: 6m}":
        "time_limit soft_time_limit task_time_limit task_soft_time_limit hard_timeout soft_timeout "
        "job_timeout default_timeout activeDeadlineSeconds deadline",
    "remove it: a job of a lost worker runs again; `retry: none` has it fail instead":
        "acks_late task_acks_late reject_on_worker_lost task_reject_on_worker_lost",
    "write result: ignore": "ignore_result task_ignore_result",
    "write `result_ttl` of the task; results are in the broker": "result_backend result_expires result_timeout",
    'write an entry of `cron`: {task: NAME, schedule: "0 2 * * *"}, or every: 90s':
        "beat_schedule crontab beat periodic periodic_tasks cron_string interval cron schedule scheduler "
        "recurring recurring_tasks",
    "write max_jobs: 1000 or max_memory: 512MiB of the worker group":
        "max_tasks_per_child worker_max_tasks_per_child max_memory_per_child worker_max_memory_per_child",
    "remove it: there is nothing to set":
        "worker_prefetch_multiplier prefetch_multiplier prefetch visibility_timeout dispatchers "
        "polling_interval batch_size",
    "write broker: {url: redis://localhost}": "broker_url redis_url redis",
    "write a flow, or after= of the call": "chain chord link depends_on batch",
    "write run: package.module.function": "func function",
    "write expires: 5m for a job that waits, result_ttl: 500s for one that has ended": "ttl",
    "write isolation: fork, or isolation: process": "worker_class",
    "write run: package.module.function, or command: [program, argument]": "class klass",
    "write queue and retry of the task": "sidekiq_options",
    "write failure_ttl: 30d": "dead dead_max_jobs dead_timeout_in_seconds",
    "write queues: {critical: 3, default: 1} of the worker group": "weight weights",
    "write drain_timeout: 25s of the worker group": "shutdown_timeout graceful_timeout stop_timeout",
    "write max_running: 5 of the queue": "limits process_limits",
    "write unique: {by: [kwargs.id], until: ended}, or for: 10m": "unique_for unique_until lock lock_ttl singleton",
    "write expires: 5m": "expires_in",
    "write `give_up_on` of a retry policy": "discard_on",
    "write timezone: Europe/Berlin of the entry": "cron_tz tz",
    "write jitter: 5m of the entry": "random_delay",
    "write on_failure: {webhook: …} of the task": "mailto",
    "write missed: last, or missed: all, of the entry": "catchup backfill",
    "write overlap: skip, replace or allow": "concurrencyPolicy",
    "write starting_deadline: 200s": "startingDeadlineSeconds",
    "write suspended: true": "suspend paused",
    "write result_ttl: 1d and failure_ttl: 30d of the task":
        "ttlSecondsAfterFinished successfulJobsHistoryLimit failedJobsHistoryLimit",
    "write processes: 4 of the worker group": "replicas",
    "write environment: {NAME: value} of the worker group": "env envFrom",
    "write drain_timeout: 30s of the worker group": "terminationGracePeriodSeconds",
    "write hosts: [batch-*] of the worker group": "nodeSelector",
}  # fmt: skip


def remedy_of(key: str) -> str:
    """What to write in place of a key that is a word of another runner; empty if it is none."""
    return _REMEDIES.get(_folded(key), "")


def _folded(key: str) -> str:
    """`:max_retries`, `maxRetries`, `MAX-RETRIES` are one word."""
    return key.casefold().replace("_", "").replace("-", "").lstrip(":")


_REMEDIES: Final = {_folded(key): remedy for remedy, keys in KEYS.items() for key in keys.split()}
