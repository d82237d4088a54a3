"""Mutants of finding messages, and of checking what is published."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS: list[Mutant] = [
    Mutant(
        "the API answers a replacement of nothing like a success",
        file="dashboard/api/messages.py",
        was="    if not revived:\n",
        becomes="    if revived is None:\n",
        caught_by="tests/dashboard/test_acting.py::test_a_dead_letter_lives_again_with_another_payload",
    ),
    Mutant(
        "what a replacement caused is shown as caused by the replaced letter",
        file="cli/messages.py",
        was="left += [(one, depth + 1) for one",
        becomes="left += [(one, 1) for one",
        caught_by="tests/integration/cli/test_messages.py::test_what_a_replacement_caused_is_shown_below_the_replacement",
    ),
    Mutant(
        "a payload that was cut is masked as text",
        file="model/masking.py",
        was="value, read, is_whole = _read(text)",
        becomes="value, read, is_whole = json.loads(text), len(text), True",
        caught_by="tests/unit/model/test_masking.py",
    ),
    Mutant(
        "the value of an object that was cut is shown although its name may follow",
        file="model/masking.py",
        was="return isinstance(value, Unfinished) and self.hides_anything",
        becomes="return False",
        caught_by="tests/unit/model/test_masking.py",
    ),
    Mutant(
        "a password that was cut before its @ is shown",
        file="model/masking.py",
        was="len(string) if unsure is None else unsure.start()",
        becomes="len(string)",
        caught_by="tests/unit/model/test_masking.py",
    ),
    Mutant(
        "a preview quotes the secret of a payload",
        file="dashboard/responses.py",
        was="return redaction.preview(value)",
        becomes="return value",
        caught_by="tests/dashboard/test_searches.py",
    ),
    Mutant(
        "the first message of a chain is not found by its id",
        file="storage/portable/search.py",
        was="return self.wanted.correlation_id, None if root is None else self.search.values.id(root)",
        becomes="return self.wanted.correlation_id, root and None",
        caught_by="tests/contract/test_search.py",
    ),
    Mutant(
        "what is published is not checked",
        file="app/message/envelope.py",
        was="each.check(topic, body, content_type)",
        becomes="pass",
        caught_by="tests/unit/app/test_validating.py",
    ),
    Mutant(
        "what is sent is checked as the topic's type, not the consumer's",
        file="app/message/envelope.py",
        was="expected = self._catalogue.of_group.get(group)",
        becomes="expected = None",
        caught_by="tests/unit/app/test_validating.py",
    ),
    *(
        Mutant(
            f"on {database}, messages of one key that were handled late are not found",
            file=f"storage/{folder}/sql/search.sql",
            was=f"OR (SELECT {any} FROM passed_over)",
            becomes="",
            caught_by="tests/contract/test_handled.py",
        )
        for database, folder, any in (("PostgreSQL", "postgres", "passed_over.any"), ("SQLite", "sqlite", "any"))
    ),
    Mutant(
        "what a schedule sends is not checked",
        file="app/message/envelope.py",
        was="            each.check(topic, body, content_type, remedy)\n",
        becomes="            pass\n",
        caught_by="tests/unit/app/test_validating.py::test_what_a_schedule_sends_must_fit_too",
    ),
    Mutant(
        "an instance whose number JSON has not is stored",
        file="app/message/catalogue.py",
        was='kind in self.floats and b"null" not in body',
        becomes="kind in self.floats",
        caught_by="tests/unit/app/test_validating.py::test_an_instance_whose_nan_json_cannot_hold_is_refused",
    ),
    Mutant(
        "a model is not read by the names that it was stored by",
        file="storage/codec/types.py",
        was='    return {"by_alias": True, "by_name": True}\n',
        becomes="    return {}\n",
        caught_by="tests/unit/codec/test_models.py",
    ),
    Mutant(
        "a field is read by the alias of another",
        file="storage/codec/types.py",
        was="        alias != name and alias in _fields(each)\n",
        becomes="        alias == name and alias in _fields(each)\n",
        caught_by="tests/unit/codec/test_models.py",
    ),
    Mutant(
        "what was handled is listed again by its kept run",
        file="storage/portable/sql/search.sql",
        was="r.status <> 'done'",
        becomes="r.status IS NOT NULL",
        caught_by="tests/contract/test_handled.py::test_it_is_listed_once_with_group_time_and_worker_whatever_is_kept",
    ),
    Mutant(
        "a message of a newer version uses up its attempts",
        file="runtime/verdicts.py",
        was="    if is_newer(error):\n",
        becomes="    if is_newer(error) and not policy:\n",
        caught_by="tests/unit/runtime/test_newer_versions.py",
    ),
]
