"""Messages on the wire: what an independent reader makes of ours, and we of others'."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from cloudevents.core.bindings import kafka, rabbitmq
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from mainspring.brokers.contract import Received, WireMessage
from mainspring.brokers.wire import FORMATS, STRUCTURED, BadWire, Inbound, Outbound, WireFormat, read, write

ID = UUID("01a1ec74-8084-79ff-994b-d237b71b8a9d")
CAUSE = UUID("01a1ec74-8007-7a1a-91a9-d2d874f48850")
AT = datetime(2030, 1, 1, 12, 30, 15, 250_000, UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PLACED = Outbound(
    ID, "orders.placed", b'{"order_id": 7}', "application/json", {"tenant": "acme", "traceparent": TRACE}, "order:7",
    "cart-7", CAUSE, AT,
)  # fmt: skip
ATTRIBUTES = {
    "specversion": "1.0",
    "id": str(ID),
    "source": "shop",
    "type": "orders.placed",
    "subject": "order:7",
    "time": AT,
    "correlationid": "cart-7",
    "causationid": str(CAUSE),
    "datacontenttype": "application/json",
}


def arrived(sent: WireMessage) -> Received:
    """The same message at the other end, in a broker that has no properties but headers."""
    return Received(sent.body, sent.headers, sent.content_type, "billing", "billing/1")


def received(body: bytes = b"{}", content_type: str | None = None, **headers: str | bytes) -> Received:
    named = {name.replace("__", "-"): value for name, value in headers.items()}
    return Received(body, named, content_type, "billing", "billing/1")


def test_the_rabbitmq_binding_reads_our_binary_mode() -> None:
    sent = write(PLACED, "shop", "cloudevents", "ce-")

    event = rabbitmq.from_binary(
        rabbitmq.RabbitMQMessage(dict(sent.headers), sent.content_type, sent.body), JSONFormat(), CloudEvent
    )

    assert event.get_attributes() == ATTRIBUTES
    assert event.get_data() == {"order_id": 7}
    assert (sent.headers["tenant"], sent.headers["traceparent"]) == ("acme", TRACE)


def test_the_kafka_binding_reads_our_binary_mode() -> None:
    sent = write(PLACED, "shop", "cloudevents", "ce_")
    headers = {name: value.encode() for name, value in sent.headers.items()}

    event = kafka.from_binary(
        kafka.KafkaMessage({**headers, "content-type": sent.content_type.encode()}, None, sent.body),
        JSONFormat(),
        CloudEvent,
    )

    assert event.get_attributes() == ATTRIBUTES
    assert event.get_data() == {"order_id": 7}


def test_an_independent_reader_reads_our_structured_mode() -> None:
    sent = write(PLACED, "shop", "structured", "ce-")

    event = JSONFormat().read(CloudEvent, sent.body)

    assert sent.content_type == STRUCTURED
    assert event.get_attributes() == {**ATTRIBUTES, "tenant": "acme", "traceparent": TRACE}
    assert event.get_data() == {"order_id": 7}


def test_bytes_that_are_no_json_are_carried_in_structured_mode() -> None:
    sent = write(PLACED._replace(payload=b"\x00\xff", content_type="image/png"), "shop", "structured", "ce-")

    assert JSONFormat().read(CloudEvent, sent.body).get_data() == b"\x00\xff"
    assert read(arrived(sent)).payload == b"\x00\xff"
    assert read(arrived(sent)).content_type == "image/png"


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_events_of_an_independent_writer_are_read(mode: str) -> None:
    event = CloudEvent({**ATTRIBUTES, "tenant": "acme"}, {"order_id": 7})
    write_event = rabbitmq.to_binary if mode == "binary" else rabbitmq.to_structured
    message = write_event(event, JSONFormat())

    found = read(Received(message.body, message.headers, message.content_type, "billing", "billing/1"))

    assert json.loads(found.payload) == {"order_id": 7}
    assert found._replace(payload=b"") == Inbound(
        str(ID), "shop", "orders.placed", b"", "application/json", {"tenant": "acme", "causationid": str(CAUSE)},
        "order:7", "cart-7",
    )  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
@given(
    payload=st.one_of(st.none(), st.integers(), st.text(), st.dictionaries(st.text(), st.integers())),
    correlation=st.none() | st.text(min_size=1),
)
def test_what_is_written_is_read_again(format: WireFormat, payload: object, correlation: str | None) -> None:
    body = json.dumps(payload).encode()
    message = PLACED._replace(payload=body, correlation_id=correlation)

    found = read(arrived(write(message, "shop", format, "ce-")))

    assert (found.id, found.type, found.content_type) == (str(ID), "orders.placed", "application/json")
    assert json.loads(found.payload) == payload
    assert found.correlation_id == (correlation or (str(ID) if format == "cap" else None))
    assert found.headers["traceparent"] == TRACE
    assert found.key == ("order:7" if format in ("cloudevents", "structured") else None)


def test_headers_of_the_library_itself_stay_here() -> None:
    message = PLACED._replace(headers={"mainspring-schedule": "nightly", "tenant": "acme"})

    for format in FORMATS:
        sent = write(message, "shop", format, "ce-")
        assert not any(name.startswith("mainspring-") for name in sent.headers)
        assert b"nightly" not in sent.body


def test_an_own_header_does_not_replace_an_attribute_in_structured_mode() -> None:
    own = {"id": "order-7", "type": "another", "specversion": "9"}

    found = read(arrived(write(PLACED._replace(headers=own), "shop", "structured", "ce-")))

    assert (found.id, found.type) == (str(ID), "orders.placed")


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_payload_that_is_no_json_although_it_is_called_so_is_carried_in_structured_mode(payload: bytes) -> None:
    sent = write(PLACED._replace(payload=payload), "shop", "structured", "ce-")

    assert read(arrived(sent)).payload == payload


def test_attributes_that_are_null_are_not_there() -> None:
    body = b'{"id": null, "type": "x", "subject": null, "datacontenttype": null, "data": 7}'

    found = read(received(body, STRUCTURED))

    assert (found.id, found.key, found.content_type, found.payload) == ("billing/1", None, "application/json", b"7")


def test_an_own_header_does_not_replace_an_attribute() -> None:
    sent = write(PLACED._replace(headers={"ce-id": "another"}), "shop", "cloudevents", "ce-")

    assert sent.headers["ce-id"] == str(ID)


def test_the_headers_of_masstransit() -> None:
    sent = write(PLACED, "shop", "masstransit", "ce-")

    assert {name: sent.headers[name] for name in ("MessageId", "CorrelationId", "ConversationId", "InitiatorId")} == {
        "MessageId": str(ID),
        "CorrelationId": "cart-7",
        "ConversationId": "cart-7",
        "InitiatorId": str(CAUSE),
    }
    assert sent.headers["MT-MessageType"] == "urn:message:orders.placed"
    assert (sent.body, sent.content_type) == (PLACED.payload, "application/json")


def test_the_headers_of_cap() -> None:
    sent = write(PLACED, "shop", "cap", "ce-")

    found = {name: value for name, value in sent.headers.items() if name.startswith("cap-")}
    assert found == {
        "cap-msg-id": str(ID),
        "cap-msg-name": "orders.placed",
        "cap-msg-type": "String",
        "cap-corr-id": "cart-7",
        "cap-corr-seq": "0",
        "cap-senttime": "2030-01-01T12:30:15.250000+00:00",
    }


@pytest.mark.parametrize(
    ("headers", "id"),
    [
        ({"ce_id": "1", "ce-type": "x", "cap-msg-id": "2"}, "1"),
        ({"CE-ID": "1"}, "1"),
        ({"cloudEvents:id": "1"}, "1"),
        ({"cloudEvents_id": "1"}, "1"),
        ({"MessageId": "1", "cap-msg-id": "2"}, "1"),
        ({"cap-msg-id": "1", "NServiceBus.MessageId": "2"}, "1"),
        ({"NServiceBus.MessageId": "1", "id": str(ID)}, "1"),
        ({"id": str(ID)}, str(ID)),
        ({"ce-id": "", "id": str(ID)}, str(ID)),
        ({"id": "order-7"}, "billing/1"),
        ({}, "billing/1"),
    ],
)
def test_the_id_is_that_of_the_first_header_that_has_one_or_the_coordinates(headers: dict[str, str], id: str) -> None:
    assert read(Received(b"{}", headers, None, "billing", "billing/1")).id == id


def test_the_id_of_the_protocol_comes_before_those_of_other_libraries() -> None:
    found = Received(b"{}", {"cap-msg-id": "2"}, None, "billing", "billing/1", message_id="1")

    assert read(found).id == "1"
    assert read(Received(b"{}", {"ce-id": "0"}, None, "billing", "billing/1", message_id="1")).id == "0"


def test_the_type_of_masstransit_is_read_as_a_name() -> None:
    found = read(received(MT__MessageType="urn:message:Shop.Contracts:OrderPlaced;urn:message:Shop:Event"))

    assert found.type == "Shop.Contracts.OrderPlaced"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"text"', b"\xff", b'{"data_base64": 7}', b'{"data_base64": "*"}']
)
def test_a_structured_event_that_cannot_be_read_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(BadWire, match="its body is no CloudEvent, although its content type says so"):
        read(received(body, STRUCTURED))


def test_a_structured_event_with_text_as_data_is_that_text() -> None:
    body = json.dumps({"id": "1", "type": "x", "datacontenttype": "text/plain", "data": "žluť"}).encode()

    assert read(received(body, f"{STRUCTURED}; charset=utf-8")).payload == "žluť".encode()


def test_a_header_that_is_no_text_is_named() -> None:
    with pytest.raises(BadWire, match="its header 'name' is no UTF-8 text"):
        read(received(name=b"\xff"))


def test_a_structured_event_has_either_data_or_data_base64() -> None:
    binary = PLACED._replace(payload=b"\xff", content_type="image/png", headers={"data": "x"})

    event = json.loads(write(binary, "shop", "structured", "ce-").body)

    assert (event["data_base64"], "data" in event) == ("/w==", False)
