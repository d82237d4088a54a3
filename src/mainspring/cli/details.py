"""One message in full, as text."""

from __future__ import annotations

import json
from datetime import datetime

from rich.text import Text

from mainspring.cli.tables import Column, print_facts, print_table, say, stdout
from mainspring.cli.words import first_line, payload_of, progress_of, visible, when
from mainspring.model.message import Priority
from mainspring.model.views import MessageView
from mainspring.timing.duration import spell


def print_message(message: MessageView) -> None:
    """Print its fields, payload, deliveries, runs, and every kept traceback."""
    print_facts(
        (
            ("id", str(message.id)),
            ("topic", message.topic),
            ("key", message.key or ""),
            ("published", _instant(message.published_at)),
            ("expires", _instant(message.expires_at)),
            ("correlation", message.correlation_id or ""),
            ("caused by", str(message.causation_id or "")),
            *((f"header {name}", value) for name, value in message.headers.items()),
        )
    )
    _print_payload(message)
    _print_deliveries(message)
    _print_runs(message)


def _print_payload(message: MessageView) -> None:
    value, encoding = payload_of(message)
    heading(f"payload, {message.content_type}" + ("" if encoding == "json" else ", as base64"))
    text = json.dumps(value, ensure_ascii=False, indent=2) if encoding == "json" else str(value)
    stdout().print(Text(visible(text)), soft_wrap=True)


def _print_deliveries(message: MessageView) -> None:
    heading("deliveries")
    if not message.deliveries:
        say("none left: every group has settled it")
        return
    columns = (
        Column("group"),
        Column("state"),
        Column("attempt", right=True),
        Column("due", right=True),
        Column("priority"),
    )
    rows = [
        (
            each.group or "(no group yet)",
            each.state,
            str(each.attempt),
            when(each.buried_at if each.state == "dead" else each.due_at),
            Priority(each.priority).name.lower(),
        )
        for each in message.deliveries
    ]
    print_table(columns, rows)
    for each in message.deliveries:
        if said := progress_of(each):
            heading(f"progress of {each.group}")
            say(said)
        if each.error:
            heading(f"why it is dead in {each.group}")
            say(each.error)


def _print_runs(message: MessageView) -> None:
    if not message.runs:
        return
    heading("kept runs")
    columns = (
        Column("group"),
        Column("attempt", right=True),
        Column("status"),
        Column("finished", right=True),
        Column("took", right=True),
        Column("node", elastic=True, spare=True),
        Column("outcome", elastic=True),
    )
    rows = [
        (
            each.group,
            str(each.attempt),
            each.status,
            when(each.finished_at),
            spell(each.finished_at - each.started_at),
            each.node or "",
            first_line(each.error or each.output),
        )
        for each in message.runs
    ]
    print_table(columns, rows)
    _print_tracebacks(message)


def _print_tracebacks(message: MessageView) -> None:
    attempts: dict[tuple[str, str], list[str]] = {}
    for each in message.runs:
        if each.traceback:
            attempts.setdefault((each.group, each.traceback), []).append(str(each.attempt))
    for (group, text), numbers in attempts.items():
        several = "identical in attempts" if len(numbers) > 1 else "attempt"
        heading(f"traceback, {group}, {several} {', '.join(numbers)}")
        stdout().print(Text(visible(text.rstrip())), soft_wrap=True)


def _instant(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.isoformat()} ({when(moment)})"


def heading(text: str) -> None:
    """Print an empty line and a heading."""
    console = stdout()
    console.print()
    console.print(Text(text, style="bold"))
