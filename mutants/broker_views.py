"""What is told of brokers: documents, traces, states, diagnoses and screens."""

from __future__ import annotations

from mutants.mutant import Mutant

_LINK = "tests/unit/brokers/test_link.py"
_ASYNCAPI = "tests/brokers/test_asyncapi.py"
_SCHEMAS = "tests/unit/codec/test_schemas.py"
_TRACES = "tests/integration/app/test_traced_brokers.py"
_STATES = "tests/brokers/test_states.py"
_DOCTOR = "tests/brokers/test_doctor.py"
_SCREEN = "tests/dashboard/test_brokers.py"

MUTANTS: list[Mutant] = [
    Mutant(
        "a document has the password of a broker",
        file="app/broker/places.py",
        was='urlsplit(url).netloc.rpartition("@")[2]',
        becomes="urlsplit(url).netloc",
        caught_by=_ASYNCAPI + "::test_servers_are_named_by_host_and_path_and_no_password_is_in_the_document",
    ),
    Mutant(
        "a document has the headers of another broker",
        file="app/broker/asyncapi.py",
        was="message, how, prefix = self._message(topic), route.format, route.broker.prefix",
        becomes='message, how, prefix = self._message(topic), route.format, "ce-"',
        caught_by=_ASYNCAPI + "::test_what_is_sent_is_what_the_document_says",
    ),
    Mutant(
        "a document depends on the order of registration",
        file="app/broker/asyncapi.py",
        was="sorted(consumers, key=lambda each: (not isinstance(each, Route), each.group))",
        becomes="list(consumers)",
        caught_by=_ASYNCAPI + "::test_the_order_of_registration_changes_nothing",
    ),
    Mutant(
        "what is read from a broker is described as what is published inside",
        file="app/broker/asyncapi.py",
        was="        fed = {each.feeds for each in self._registered}\n",
        becomes="        fed: set[str | None] = set()\n",
        caught_by=_ASYNCAPI + "::test_each_channel_has_the_address_and_the_messages_of_its_broker",
    ),
    Mutant(
        "the schema of a tuple takes any tuple",
        file="storage/codec/schemas.py",
        was='tuples = {"prefixItems": "items", "items": "additionalItems"}',
        becomes='tuples = {"items": "additionalItems"}',
        caught_by=_SCHEMAS,
    ),
    Mutant(
        "two types of one name share a schema",
        file="storage/codec/schemas.py",
        was="    while name in taken:\n",
        becomes="    while name in ():\n",
        caught_by=_SCHEMAS + "::test_two_types_of_one_name_have_two_schemas",
    ),
    Mutant(
        "what is sent and received leaves the trace of its publish",
        file="telemetry/spans.py",
        was="parent = Context() if creation is None else",
        becomes="parent = Context() if creation is not None else",
        caught_by=_TRACES + "::test_one_trace_has_the_request_what_went_to_the_broker_and_what_came_of_it",
    ),
    Mutant(
        "messages that are sent together are in the trace of the first",
        file="telemetry/spans.py",
        was="self._beside(each.topic, each.headers,",
        becomes="self._beside(each.topic, deliveries[0].headers,",
        caught_by=_TRACES + "::test_messages_that_are_sent_together_stay_in_their_own_traces",
    ),
    Mutant(
        "a rejected message looks sent in its trace",
        file="app/consume/tracing.py",
        was="                if isinstance(answer, Bury):\n",
        becomes="                if isinstance(answer, Bury) and answer.failure is None:\n",
        caught_by=_TRACES + "::test_a_send_tells_what_the_broker_said",
    ),
    Mutant(
        "a repeat looks stored in its trace",
        file="telemetry/spans.py",
        was='"stored" if id in stored else "repeat"',
        becomes='"stored"',
        caught_by=_TRACES + "::test_a_repeat_is_received_again_and_not_processed",
    ),
    Mutant(
        "a worker does not report its connections to brokers",
        file="runtime/worker.py",
        was="        self._heartbeat.links = self._link_views\n",
        becomes="",
        caught_by=_STATES + "::test_another_process_sees_the_connections_of_a_worker",
    ),
    Mutant(
        "the error of a connection is reported in full, however long",
        file="brokers/link.py",
        was="storable(self.error)[:_LONGEST_ERROR]",
        becomes="storable(self.error)",
        caught_by=_LINK + "::test_a_report_of_it_has_no_password_and_no_endless_error",
    ),
    Mutant(
        "how much waits in a broker stays as it was last known",
        file="brokers/link.py",
        was="        except (BrokerError, TimeoutError):\n            self.lag = None\n",
        becomes="        except (BrokerError, TimeoutError):\n            pass\n",
        caught_by=_LINK + "::test_how_much_waits_is_unknown_if_the_broker_does_not_tell",
    ),
    Mutant(
        "an intake is healthy however much waits for it",
        file="app/observe/broker_checks.py",
        was="and link.lag > degraded}",
        becomes="and link.lag < 0}",
        caught_by=_STATES + "::test_metrics_and_health_tell_how_much_waits_in_a_broker",
    ),
    Mutant(
        "a worker that is silent counts as connected",
        file="app/broker/state.py",
        was="    alive = roster.alive()\n",
        becomes="    alive = roster.workers\n",
        caught_by=_STATES + "::test_the_oldest_outage_of_live_workers_is_told",
    ),
    Mutant(
        "a worker of another app counts as connected",
        file="app/broker/state.py",
        was="if view.group in each.groups and app in (None, each.app)]",
        becomes="if view.group in each.groups]",
        caught_by=_STATES + "::test_the_oldest_outage_of_live_workers_is_told",
    ),
    Mutant(
        "a route and an intake of one name are taken for each other",
        file="app/broker/state.py",
        was="return (link.name, link.direction) == (view.name, view.direction)",
        becomes="return link.name == view.name",
        caught_by=_STATES + "::test_a_route_and_an_intake_of_one_name_are_told_apart",
    ),
    Mutant(
        "a missing extra hides what is wrong with other brokers",
        file="app/broker/brokers.py",
        was="    except MainspringError as error:  # also a missing extra, which hides no other\n",
        becomes="    except BrokerError as error:\n",
        caught_by=_DOCTOR + "::test_a_missing_extra_is_named_and_hides_no_other",
    ),
    Mutant(
        "viewers may have the dashboard connect to brokers",
        file="dashboard/api/brokers.py",
        was='    post("/api/brokers/check", check,',
        becomes='    get("/api/brokers/check", check,',
        caught_by=_SCREEN + "::test_an_operator_checks_the_brokers_and_a_viewer_may_not",
    ),
    Mutant(
        "an acknowledgement that failed beside the next store is not reported",
        file="runtime/intake.py",
        was="        if before is not None:\n            await before\n",
        becomes="",
        caught_by="tests/brokers/test_intake_batches.py"
        "::test_an_acknowledgement_that_fails_while_the_next_batch_is_stored_is_logged",
    ),
]
