"""Routes, intakes and brokers."""

from __future__ import annotations

from mutants.mutant import Mutant

_ROUTES = "tests/brokers/test_routes.py"
_INTAKE = "tests/brokers/test_intake.py"
_RECEIVED = "tests/contract/test_received.py"
_LINK = "tests/unit/brokers/test_link.py"
_WIRE = "tests/unit/brokers/test_wire.py"

MUTANTS: list[Mutant] = [
    Mutant(
        "what a broker cannot take now counts as sent",
        file="app/broker/route.py",
        was='if result.status == "sent":',
        becomes='if result.status != "rejected":',
        caught_by=_ROUTES,
    ),
    Mutant(
        "what a broker rejects counts as sent",
        file="app/broker/route.py",
        was='        if result.status == "rejected":\n',
        becomes='        if result.status == "rejected":\n            return None\n',
        caught_by=_ROUTES + "::test_what_the_broker_rejects_is_a_dead_letter_with_its_reason_and_can_be_revived",
    ),
    Mutant(
        "an outage buries what is to be sent",
        file="app/broker/route.py",
        was="        return Snooze(timedelta(seconds=pause), result.reason)\n",
        becomes='        return Bury(Failure("error", result.reason))\n',
        caught_by=_ROUTES + "::test_a_broker_that_takes_nothing_buries_nothing",
    ),
    Mutant(
        "a route claims its backlog while the broker is away",
        file="app/broker/route.py",
        was="            breaker=AWAY,\n",
        becomes="",
        caught_by=_ROUTES + "::test_while_the_broker_is_away_the_backlog_is_left_alone",
    ),
    Mutant(
        "two routes send the same to one address",
        file="app/broker/route.py",
        was="        if topic is not None and _address(",
        becomes="        if topic is None and _address(",
        caught_by=_ROUTES + "::test_two_routes_that_would_send_the_same_conflict",
    ),
    Mutant(
        "a received message is acknowledged before it is stored",
        file="runtime/intake.py",
        was="        held = self._held\n        new =",
        becomes="        held = self._held\n        await held.connection.ack(held.batch)\n        new =",
        caught_by=_INTAKE,
    ),
    Mutant(
        "a repeat is stored again",
        file="storage/portable/sql/inbox.sql#inbox_receive_again",
        was="  AND status = 'seen'\n",
        becomes="",
        caught_by=_RECEIVED + "::test_each_is_stored_and_marked_and_a_repeat_is_neither",
    ),
    Mutant(
        "one that an operator released is taken for a repeat",
        file="storage/portable/sql/inbox.sql#inbox_receive_again",
        was="  AND status = 'seen'\n",
        becomes="  AND false\n",
        caught_by=_RECEIVED + "::test_one_that_failed_or_was_released_is_stored_again",
    ),
    Mutant(
        "a received message is marked and not stored",
        file="storage/portable/coordination.py",
        was="            yield from self._store([draft for id, draft in received.items() if id in new])\n",
        becomes="            pass\n",
        caught_by=_RECEIVED,
    ),
    Mutant(
        "messages that cannot be stored as they are have one mark",
        file="app/broker/intake.py",
        was='_short_id(f"refused {received.coordinates}")',
        becomes='"refused"',
        caught_by=_INTAKE + "::test_one_that_cannot_be_stored_is_a_dead_letter_with_its_bytes_and_blocks_nothing",
    ),
    Mutant(
        "a refused message takes the id of a corrected one",
        file="app/broker/intake.py",
        was='_short_id(f"refused {received.coordinates}")',
        becomes="_short_id(received.message_id or received.coordinates)",
        caught_by=_INTAKE + "::test_a_refused_message_takes_no_id_from_a_corrected_one",
    ),
    Mutant(
        "of two senders with the same ids one is a repeat of the other",
        file="app/broker/intake.py",
        was='found.id if found.sender is None else f"{found.sender} {found.id}"',
        becomes="found.id",
        caught_by=_INTAKE + "::test_two_senders_may_count_alike",
    ),
    Mutant(
        "a drained worker goes on reading",
        file="runtime/intake.py",
        was="if self._draining() or await self._is_full():",
        becomes="if await self._is_full():",
        caught_by=_INTAKE + "::test_a_drained_worker_reads_no_more",
    ),
    Mutant(
        "a worker that stops waits for a broker to connect",
        file="runtime/intake.py",
        was="            self._receiving.cancel()\n",
        becomes="            pass\n",
        caught_by=_INTAKE + "::test_a_worker_that_stops_while_it_connects_ends_at_once",
    ),
    Mutant(
        "a header of the publisher replaces an attribute of a structured event",
        file="brokers/wire.py",
        was="{**extensions, **_attributes(message, app),",
        becomes="{**_attributes(message, app), **extensions,",
        caught_by=_WIRE + "::test_an_own_header_does_not_replace_an_attribute_in_structured_mode",
    ),
    Mutant(
        "a source is read for two consumers",
        file="app/registry.py",
        was="each.group == made.group and each.fed != made.fed",
        becomes="each.group == made.group and each.fed == made.fed",
        caught_by=_INTAKE + "::test_a_source_is_read_for_one_consumer",
    ),
    Mutant(
        "a lost broker is called without a pause",
        file="brokers/link.py",
        was="            if self._now() < self._not_before:\n",
        becomes="            if False:\n",
        caught_by=_LINK + "::test_without_a_connection_all_are_for_later_and_the_pause_grows",
    ),
    Mutant(
        "headers of the library are sent to brokers",
        file="brokers/wire.py",
        was="    own = public(message.headers)\n",
        becomes="    own = dict(message.headers or {})\n",
        caught_by=_WIRE + "::test_headers_of_the_library_itself_stay_here",
    ),
    Mutant(
        "a header of the publisher replaces the id on the wire",
        file="brokers/wire.py",
        was="{**own, **writer(message, app, prefix)}",
        becomes="{**writer(message, app, prefix), **own}",
        caught_by=_WIRE + "::test_an_own_header_does_not_replace_an_attribute",
    ),
    Mutant(
        "the id of the protocol comes before that of the event",
        file="brokers/wire.py",
        was='    id_ = attributes.get("id") or received.message_id or',
        becomes='    id_ = received.message_id or attributes.get("id") or',
        caught_by=_WIRE + "::test_the_id_of_the_protocol_comes_before_those_of_other_libraries",
    ),
    Mutant(
        "a test sends to a real broker",
        file="testing/services.py",
        was="            tested = rehearsed(each, self._records.relayed)\n",
        becomes="            tested = each\n",
        caught_by="tests/brokers/test_kit.py::test_what_routes_send_is_recorded_and_reaches_no_broker",
    ),
]
