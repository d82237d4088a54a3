"""The clients of Kafka: how they are made, and what their errors mean."""

# ruff: noqa: SLF001 - the names of public codes of KafkaError begin with "_"

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from mainspring.brokers.contract import SendResult
from mainspring.model.errors import BadOption, BrokerUnavailable

if TYPE_CHECKING:
    from mainspring.brokers.kafka import Kafka

CLOSED = "the connection is closed"
REPLY_WITHIN = 10.0
"""Seconds within which a broker must reply."""

ALL_DOWN = KafkaError._ALL_BROKERS_DOWN
REJECTS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError._INVALID_ARG,
        KafkaError._BAD_MSG,
    }
)
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
NO_TOPIC = _MISSING | {KafkaError.TOPIC_EXCEPTION, KafkaError.TOPIC_AUTHORIZATION_FAILED}
"""Errors that no further attempt mends, of a message and of its topic; after all others it is sent again."""
_REFUSALS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT, ALL_DOWN})
STALE = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._NO_OFFSET,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
    }
)
"""Errors of a commit while partitions move to another member."""
PASSING = frozenset({KafkaError._MAX_POLL_EXCEEDED, KafkaError._PARTITION_EOF})
"""Errors after which the next poll goes on, as by joining the group again."""


def new_client(
    kind: Callable[[Any], Any],
    broker: Kafka,
    own: Mapping[str, object],
    fixed: Mapping[str, object],
    on_error: Callable[[KafkaError], None],
) -> Any:
    """Make a client: the options of the user replace its own, not those that are fixed. Raises BadOption."""
    always = {"bootstrap.servers": ",".join(broker.servers), "allow.auto.create.topics": False}
    # librdkafka would log to standard error what is raised here.
    own = {"log_level": 2, "client.id": "mainspring", **own, **(broker.config or {})}
    try:
        return kind({**own, **fixed, **always, "error_cb": on_error})
    except KafkaException as error:
        raise BadOption(f"Kafka(config=…): {error.args[0].str()}") from error
    except (TypeError, ValueError) as error:  # of the binding, not of librdkafka
        raise BadOption(f"Kafka(config=…): {error}") from error


def judged(broker: Kafka, error: KafkaError, topic: str) -> SendResult:
    """Return what an error means for a message to this topic: one that is declared is missing for a moment only."""
    reason = f"topic {topic!r}: {error.str()}"
    if error.code() in _MISSING and broker.declare and topic in broker.known:
        return SendResult("later", reason)
    if error.code() in NO_TOPIC:
        return SendResult("rejected", f"{reason}: create it, or grant the right to write")
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        reason += ": raise message.max.bytes in config= and max.message.bytes of the topic, or send a reference"
    return SendResult("rejected" if error.code() in REJECTS else "later", reason)


def unavailable(broker: Kafka, error: KafkaError) -> BrokerUnavailable:
    """Return what to raise for an error: it names the user, and what to check."""
    user = (broker.config or {}).get("sasl.username")
    shown = broker.shown if user is None else f"{broker.shown} as user {user!r}"
    advice = ""
    if error.code() in _REFUSALS:
        advice = ": check sasl.username, sasl.password and sasl.mechanism in config, and the rights of the user"
    elif error.code() in _AWAY:
        advice = ": check servers, and that Kafka runs there"
    elif error.code() in NO_TOPIC:
        advice = ": create it, or pass declare=True"
    return BrokerUnavailable(f"{shown}: {error.str()}{advice}")
