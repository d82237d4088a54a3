"""Words of other libraries, and what to write here instead: one table for options, methods and the command line.

It is read only where a word is rejected anyway. A word that Mainspring has itself never gets here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

_CONSUMER = "@app.consumer(…)"
_PUBLISH = "publish(…) or send(…)"
_RECURRING = "@app.recurring(…)"
_APP = "Mainspring(…)"
_POLICY = "exponential(…)"


class _Row(NamedTuple):
    """One thing that other libraries call by several names."""

    where: str
    """A call that has it, for a word that was given to another."""
    advice: str
    words: str
    marker: str = ""
    """An option of the calls that the row is about [the one that the advice names]."""

    @property
    def option(self) -> str:
        """The option that a call must have for the row to be about it."""
        return self.marker or self.advice.removeprefix("write ").partition("=")[0]


_OPTIONS = (
    # how a failure is retried
    _Row(
        _CONSUMER,
        "write retry=exponential(attempts=5), which counts the first attempt too",
        "max_retries retries max_tries max_attempts attempts tries num_retries retry_count retry_limit",
    ),
    _Row(
        _CONSUMER,
        "write retry=exponential('1s', cap='10m'), or retry=intervals('5s', '1m', '10m')",
        "backoff retry_backoff retry_backoff_max retry_delay retry_delays retry_intervals retry_jitter "
        "retry_policy default_retry_delay min_backoff max_backoff max_delay retry",
    ),
    _Row(
        _CONSUMER,
        "write retry=exponential(retry_on=ConnectionError)",
        "autoretry_for retry_on retry_for retry_exceptions retry_when",
    ),
    _Row(
        _CONSUMER,
        "write retry=exponential(give_up_on=KeyError)",
        "give_up_on dont_autoretry_for throws no_retry_on non_retryable",
    ),
    # when and how one message is delivered
    _Row(_PUBLISH, "write delay='10s'", "countdown delay_seconds delay_ms defer_by _defer_by enqueue_in run_in"),
    _Row(
        _PUBLISH,
        "write at=…, an aware datetime",
        "eta run_at run_date scheduled_at schedule_at scheduled_for defer_until _defer_until enqueue_at not_before",
    ),
    _Row(_PUBLISH, "write expires='1h'", "ttl expiration expire expires_in expires_at discard_after expires"),
    _Row(
        _PUBLISH,
        "write message_id=…: the same one again stores nothing",
        "task_id job_id _job_id idempotency_key dedup_id deduplication_id",
    ),
    _Row(
        _PUBLISH,
        "write unique='key' with key='order:7', or unique='payload'",
        "unique_key dedupe dedupe_key lock queueing_lock singleton unique_for once",
    ),
    _Row(_PUBLISH, "write key='order:7'", "partition_key ordering_key message_group_id key"),
    _Row(_PUBLISH, "write tx=session", "transaction session connection conn cursor using db db_session tx"),
    _Row(_PUBLISH, "write headers={'tag': 'web'}", "metadata meta attributes properties tags labels"),
    _Row(
        _PUBLISH,
        "the topic comes first: publish('orders.placed', payload); to one consumer: consumer.send(payload)",
        "queue queue_name topic group routing_key exchange channel subject",
        "message_id",
    ),
    _Row(
        _PUBLISH,
        "a message has one payload, the second argument: publish('orders.placed', {'id': 7})",
        "args kwargs data body",
        "message_id",
    ),
    _Row("consumer.send(…)", "write then=another_consumer", "link on_success callback next_task then"),
    _Row("consumer.send(…)", "write failed=another_consumer", "link_error errback on_error failed"),
    # how a consumer runs
    _Row(
        _CONSUMER,
        "topics come first, @app.consumer('orders.placed'), and the consumer's own name is group='receipts'",
        "queue queue_name queues topic topics name task_name routing_key exchange channel subject consumer_group",
        "transactional",
    ),
    _Row(
        _CONSUMER, "annotate a parameter of the handler with Context", "bind pass_context with_context", "transactional"
    ),
    _Row(
        _CONSUMER,
        "leave it out: a message is settled when its handler has ended, and again by another worker if this one dies",
        "acks_late ack auto_ack no_ack reject_on_worker_lost ignore_result store_results keep_result",
        "transactional",
    ),
    _Row(
        _CONSUMER,
        "write timeout='30s'",
        "time_limit soft_time_limit hard_time_limit job_timeout execution_timeout max_runtime timeout",
    ),
    _Row(_CONSUMER, "write rate='100/1m'", "rate_limit max_rate throttle"),
    _Row(
        _CONSUMER,
        "write concurrency=20, how many run at once in one process",
        "max_concurrency max_workers workers threads prefetch prefetch_count max_jobs parallelism",
    ),
    _Row(_CONSUMER, "write global_concurrency=3", "concurrency_limit max_running"),
    _Row(_CONSUMER, "write ordered=True, and publish with key='order:7'", "fifo sequential serial"),
    _Row(_CONSUMER, "write batch=100", "batch_size max_batch_size"),
    _Row(_CONSUMER, "write breaker=breaker(failures=10, within='1m')", "circuit_breaker"),
    # when a schedule is due
    _Row(_RECURRING, "write timezone='Europe/Berlin'", "tz zone time_zone tzinfo timezone"),
    _Row(
        _RECURRING,
        "the rhythm comes first: @app.recurring('0 9 * * mon-fri') or @app.recurring(every('90s'))",
        "cron crontab cron_expression schedule trigger interval every seconds minutes hours",
        "offline",
    ),
    _Row(
        "app.schedules.alter(…)",
        "write rhythm='0 9 * * mon-fri', or 'every 90s'",
        "cron crontab cron_expression schedule trigger interval every seconds minutes hours",
    ),
    _Row(_RECURRING, "write overlap='skip'", "max_instances no_overlap allow_overlap concurrent"),
    _Row(_RECURRING, "write misfire='latest'", "coalesce catchup run_missed"),
    _Row(
        _RECURRING,
        "write misfire_after='5m', and misfire='skip' to leave out what is later",
        "misfire_grace_time grace_time misfire_threshold",
    ),
    _Row(_RECURRING, "write start=…, an aware datetime", "start_date start_time starts_at begin"),
    _Row(_RECURRING, "write end=…, an aware datetime", "end_date end_time ends_at until"),
    _Row(_RECURRING, "write payload={'id': 7}", "args kwargs data body"),
    _Row(
        "schedules.put(…)",
        "leave it out: the payload is given by @app.recurring(…) or schedules.put(…)",
        "payload args kwargs data body",
        "rhythm",
    ),
    # an app
    _Row(
        _APP,
        "write worker_concurrency=20 for a whole worker, or concurrency=20 in @app.consumer(…) for one consumer",
        "concurrency max_concurrency max_workers workers threads prefetch prefetch_count max_jobs parallelism",
    ),
    _Row(
        _APP,
        "the database's URL comes first: Mainspring('postgresql://…')",
        "broker broker_url backend result_backend database database_url db_url dsn conninfo redis_url engine",
        "claim_time",
    ),
    _Row(_APP, "write claim_time='30s'", "visibility_timeout ack_timeout lease_time heartbeat"),
    _Row(_APP, "write grace='25s'", "shutdown_timeout graceful_timeout stop_timeout"),
    _Row(_APP, "write idle_poll='5s'", "poll_interval polling_interval fetch_interval"),
    _Row(_APP, "write preset='development'", "debug dev environment"),
    # calls that name what is there
    _Row(
        _RECURRING,
        "write '0 9 * * *', a cron expression, first: every day at 9:00",
        "hour minute second day day_of_week month",
        "offline",
    ),
    _Row(
        "app.leases.hold(…)",
        "write ttl='30s', how long it lasts after a renewal, or wait='10s', how long to wait for it",
        "timeout blocking blocking_timeout acquire_timeout lease_time expire",
        "renew_after",
    ),
    _Row("queue.claim(…)", "write batch=10", "size limit count max_messages prefetch", "hold"),
    _Row("queue.claim(…)", "write hold='1m'", "timeout visibility_timeout lease_time ttl"),
    _Row("app.messages.list(…)", "the state comes first: app.messages.list('dead')", "status", "state"),
    _Row(
        "app.dead.revive(…)", "the id comes first: app.dead.revive(message_id)", "id ids task_id job_id", "everything"
    ),
    _Row(
        "app.cancel(…)",
        "the id comes first: app.cancel(message_id), or a topic with key='order:7'",
        "message_id id task_id job_id",
        "which",
    ),
    _Row(_PUBLISH, "write message_id=…: the same one again stores nothing", "id"),
    _Row("app.testing(…)", "write start=…, an aware datetime", "now clock freeze_time", "patience"),
    # a policy: last, since a word that is given to another call means the call's own option
    _Row(
        _POLICY,
        "write attempts=5, which counts the first attempt too",
        "max_retries retries max_tries max_attempts tries num_retries retry_count retry_limit times",
    ),
    _Row(_POLICY, "write cap='10m'", "max_delay max_interval max_backoff max_wait maximum ceiling max"),
    _Row(
        _POLICY,
        "give the first wait first, as in exponential('1s')",
        "initial initial_delay initial_interval base base_delay min_backoff delay min start interval",
        "first",
    ),
    _Row(_POLICY, "write factor=2.0", "multiplier backoff backoff_factor backoff_coefficient exponent"),
    _Row(_POLICY, "write retry_on=ConnectionError", "exceptions autoretry_for retry_for on"),
    _Row(_POLICY, "write budget='30m'", "max_time max_elapsed max_duration deadline timeout total"),
)


def option_advice(word: str, known: Collection[str]) -> str | None:
    """Return what to write for a foreign word, given to a call with these options; None for an unknown word."""
    rows = [row for row in _OPTIONS if word in row.words.split()]
    own = next((row for row in rows if row.option in known), None)
    if own is not None:
        return own.advice
    return f"{rows[0].advice}, in {rows[0].where}" if rows else None


_RETRY_TABLE = "retry = { kind = 'exponential', attempts = 5 }, or waits, retry = '5s, 1m'"
_INSTANT = "2030-01-31T09:00:00+01:00"
_TOML = {
    "retry": _RETRY_TABLE,
    "headers": "headers = { tag = 'web' }",
    "then": "then = 'another_consumer'",
    "failed": "failed = 'another_consumer'",
    "start": f"start = {_INSTANT}",
    "end": f"end = {_INSTANT}",
}
"""How options are written in a file, where it differs from Python in more than the spaces."""


def toml_advice(word: str, known: Collection[str]) -> str | None:
    """Return what to write in a file for a foreign word, in a table with these options; None for an unknown one."""
    rows = [row for row in _OPTIONS if word in row.words.split() and row.option in known]
    if not rows:
        return None
    option = rows[0].option
    spelled = rows[0].advice.replace(f"{option}=", f"{option} = ", 1)
    return f"write {_TOML[option]}" if option in _TOML else spelled


_CONSUMING = "@app.consumer('orders.placed') above the handler"
_PUBLISHING = "await app.publish('orders.placed', payload), or await consumer.send(payload) to one consumer"
_RHYTHM = "@app.recurring('0 9 * * mon-fri') above the handler"
_OPENING = "async with app: …, or app.sync.publish(…) in blocking code, which opens by itself"
_RUNNING = "app.run(), or `mainspring worker shop:app`"

_METHODS: dict[str, dict[str, str]] = {
    "Mainspring": {
        "task job actor shared_task subscriber handler listener": _CONSUMING,
        "periodic_task cron scheduled repeat_every scheduled_job": _RHYTHM,
        "send send_task enqueue emit dispatch defer add_job produce apply_async delay": _PUBLISHING,
        "start serve worker_main main": _RUNNING,
        "beat scheduler": f"{_RUNNING}: every worker runs the schedules",
        "conf settings": "app.options, and Mainspring(…, option=…) to set them",
        "open connect close init startup shutdown": _OPENING,
        "autodiscover_tasks discover scan": "app.include('shop.consumers')",
        "lock": "async with app.leases.hold('name')",
        "testing": "app.testing(), whose kit.sync serves blocking tests",
    },
    "Consumed": {
        "delay enqueue defer defer_async kiq submit perform_async queue": (
            "await {name}.send(payload), or {name}.sync.send(payload) in blocking code"
        ),
        "apply_async send_with_options options kicker configure schedule": (
            "await {name}.send(payload, delay='10s'), or at=…, priority=…, key=…"
        ),
        "s si signature pipe chain link": "await {name}.send(payload, then=another_consumer)",
        "fn original call_local apply": "{name}(…), which calls the function itself, or {name}.function",
        "retry": "return Retry('5m', 'why') in the handler",
    },
    "Schedules": {"add_job add create add_schedule schedule": "await app.schedules.put('name', '0 9 * * *', consumer)"},
    "DeadLetters": {"retry requeue replay resend": "await app.dead.revive(message_id)"},
    "Queue": {"get pop receive poll fetch dequeue": "await queue.claim(batch=10), or async for item in queue.items()"},
    "Receipt": {
        "get result wait ready status_of join successful": (
            "nothing waits for results; write await app.messages.get(receipt.id) to look it up"
        ),
    },
}


def method_advice(kinds: Iterable[str], word: str, name: str, *, blocking: bool = False) -> str | None:
    """Return what to write for a foreign method of the object ``name`` of these classes; None for an unknown one."""
    known = (entry for kind in kinds for entry in _METHODS.get(kind, {}).items())
    advice = next((advice for words, advice in known if word in words.split()), None)
    if advice is None:
        return None
    return (_blocking(advice) if blocking else advice).format(name=name)


def _blocking(advice: str) -> str:
    """Return the advice as it is written in blocking code."""
    only = advice.partition(", or {name}.sync")[0]
    spelled = only.replace("await app.", "app.sync.").replace("async with app.", "with app.sync.")
    return re.sub(r"await (\{name\}|consumer)\.", r"\1.sync.", spelled)


class _Flag(NamedTuple):
    """One option of the command line that other libraries call by several names."""

    option: str
    """The row is about commands that have this option."""
    advice: str
    words: str


_FLAGS = (
    _Flag(
        "--processes",
        "write --concurrency 20, how many run at once in one process; of one consumer it is @app.consumer(…, "
        "concurrency=20), and --processes 4 runs four processes",
        "--threads --autoscale --pool -P --prefetch",
    ),
    _Flag("--processes", "write --processes 4", "--workers -w --num-workers"),
    _Flag("--processes", "leave it out: every worker runs the schedules", "-B --beat --scheduler"),
    _Flag("--processes", "write --group NAME, once for each group", "-Q --queues --queue -q --groups"),
    _Flag("--group", "write --group NAME", "-Q --queues --queue -q --groups"),
    _Flag("--delay", "the topic comes first: mainspring publish TOPIC JSON", "-Q --queues --queue -q --groups --group"),
    _Flag("--app", "write --app shop:app", "-A --application"),
    _Flag("--log-level", "write --log-level debug", "--loglevel -l --verbose -v --log"),
    _Flag("--reload", "write --reload", "--watch --autoreload"),
    _Flag("--url", "write --url URL", "--database --db --dsn --broker"),
    _Flag("--timezone", "write --timezone ZONE", "--tz --zone"),
    _Flag("--delay", "write --delay 10s", "--countdown"),
    _Flag("--at", "write --at 2030-01-31T09:00:00+01:00", "--eta"),
)
_COMMANDS = {
    "beat scheduler": "`mainspring worker MODULE:APP` runs the schedules too",
    "run start work consume serve": "write `mainspring worker MODULE:APP`",
    "flower web ui monitor admin": "write `mainspring dashboard MODULE:APP`",
    "status inspect ping check": "write `mainspring health`, `mainspring top` or `mainspring doctor`",
    "metrics stats prometheus": "write `mainspring top`, or read /metrics of `mainspring worker --probe HOST:PORT`",
    "send enqueue push call emit": "write `mainspring publish TOPIC JSON`",
    "jobs tasks queue queues": "write `mainspring messages list` or `mainspring groups list`",
    "failed dlq retry": "write `mainspring dead list`, then `mainspring dead revive`",
    "upgrade initdb setup db": "write `mainspring migrate`",
    "new scaffold startproject": "write `mainspring init`",
    "cancel show list": "write `mainspring messages` before it",
    "purge cleanup": "write `mainspring prune`",
}


def flag_advice(flag: str, known: Collection[str]) -> str | None:
    """Return what to write for a foreign option of a command with these; None for an unknown one."""
    return next((row.advice for row in _FLAGS if flag in row.words.split() and row.option in known), None)


def command_advice(word: str) -> str | None:
    """Return what to write for a foreign command; None for an unknown one."""
    return next((advice for words, advice in _COMMANDS.items() if word in words.split()), None)
