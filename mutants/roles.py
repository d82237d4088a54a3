"""What the roles of a database may do, and how a right that is missing is told and borne."""

from __future__ import annotations

from mutants.mutant import Mutant

ROLES = "tests/integration/postgres/test_roles.py"
TLS = "tests/integration/postgres/test_tls.py"
RIGHTS = "tests/integration/postgres/test_rights.py"

MUTANTS: list[Mutant] = [
    Mutant(
        "the role publish reads payloads",
        file="storage/postgres/roles.py",
        was='"message": "SELECT (id, topic, key, published_at, copies), INSERT",',
        becomes='"message": "SELECT, INSERT", "dead": "SELECT",',
        caught_by=ROLES,
    ),
    Mutant(
        "the role work writes to the audit",
        file="storage/postgres/roles.py",
        was='"audit": "SELECT, UPDATE (detail), DELETE",',
        becomes='"audit": "SELECT, INSERT, UPDATE (detail), DELETE",',
        caught_by=ROLES,
    ),
    Mutant(
        "the role operate claims",
        file="storage/postgres/roles.py",
        was="UPDATE (due_at, held_by,",
        becomes="UPDATE (attempt, due_at, held_by,",
        caught_by=ROLES,
    ),
    Mutant(
        "a publish that is sent again needs the right to read payloads",
        file="storage/postgres/mailbox.py",
        was='if not known or not (yield names("publish_readable"))[0][0]:',
        becomes="if not known:",
        caught_by=ROLES,
    ),
    Mutant(
        "a migration leaves its tables to the owner alone",
        file="storage/postgres/schema.py",
        was="            await self._keep_roles()\n        await self._record(step)",
        becomes="        await self._record(step)",
        caught_by=ROLES,
    ),
    Mutant(
        "a migration widens a role that lacks some rights",
        file="storage/postgres/schema.py",
        was="self._roles = [(name, held(await self._lacking(name))) for (name,) in grantees]",
        becomes="self._roles = [(name, list(await self._lacking(name))) for (name,) in grantees]",
        caught_by=ROLES,
    ),
    Mutant(
        "what is there is handed over to no owner",
        file="storage/postgres/roles.py",
        was="        EXECUTE statement;",
        becomes="        PERFORM statement;",
        caught_by=ROLES,
    ),
    Mutant(
        "the name of a role ends where it has a quote",
        file="storage/postgres/roles.py",
        was="""return '"{}"'.format(name.replace('"', '""'))""",
        becomes="""return '"{}"'.format(name)""",
        caught_by=ROLES,
    ),
    Mutant(
        "a URL without a mode leaves TLS to the server",
        file="storage/postgres/tls.py",
        was='return f"{head}?{query}&sslmode=require" if mark else f"{head}?sslmode=require"',
        becomes="return dsn",
        caught_by=TLS,
    ),
    Mutant(
        "a mode that prefers TLS is enough",
        file="storage/postgres/tls.py",
        was='_ENOUGH = ("require",',
        becomes='_ENOUGH = ("prefer", "require",',
        caught_by=TLS,
    ),
    Mutant(
        "a connection without the required TLS is used",
        file="storage/postgres/tls.py",
        was="    if not encrypted:\n",
        becomes="    if not encrypted and connection is None:\n",
        caught_by=TLS,
    ),
    Mutant(
        "every process needs the rights of a worker",
        file="model/roles.py",
        was="    if works:\n",
        becomes='    if works or "work" in lacking:\n',
        caught_by=RIGHTS,
    ),
    Mutant(
        "what a role is not meant to read makes its process unhealthy",
        file="app/observe/rights.py",
        was="        return bool(self._held)\n",
        becomes="        return False\n",
        caught_by=RIGHTS,
    ),
    Mutant(
        "a worker that lacks a right at its start ends",
        file="runtime/worker.py",
        was="except (StorageUnavailable, SchemaMissing, NotGranted) as error:",
        becomes="except (StorageUnavailable, SchemaMissing) as error:",
        caught_by=RIGHTS,
    ),
    Mutant(
        "a verdict that lacks a right is dropped",
        file="runtime/settler.py",
        was="        except (StorageUnavailable, NotGranted):\n            raise\n",
        becomes="        except StorageUnavailable:\n            raise\n",
        caught_by=RIGHTS,
    ),
    Mutant(
        "a verdict that lacks a right holds up all others",
        file="runtime/settler.py",
        was="                    denied.append(self._batch.pop(0))\n",
        becomes="                    raise\n",
        caught_by=RIGHTS,
    ),
    Mutant(
        "a transaction that lacks a right to settle counts an attempt",
        file="app/transaction/consumers.py",
        was="        raise NotSettled(str(error)) from error\n",
        becomes="        raise\n",
        caught_by=RIGHTS,
    ),
    Mutant(
        "the dashboard takes a missing right for an outage",
        file="dashboard/responses.py",
        was='return Problem(500, "not_granted", str(error))',
        becomes='return Problem(503, "storage", str(error), {"Retry-After": "5"})',
        caught_by="tests/dashboard/test_roles.py",
    ),
    Mutant(
        "a missing right is logged with every attempt",
        file="runtime/reports.py",
        was="if isinstance(error, NotGranted) and self._is_known(str(error)):",
        becomes="if isinstance(error, NotGranted) and not loop:",
        caught_by="tests/unit/runtime/test_missing_rights.py",
    ),
]
