# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real output of Slurm's commands, recorded on clusters of the versions that name the folders of data/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm

DATA = Path(__file__).parent / "data"


def recorded(name: str, version: str = "22.05") -> str:
    """One recording, byte for byte: control characters and line ends as Slurm printed them."""
    return (DATA / version / name).read_bytes().decode()


class FakeSlurm:
    """Answers for `Slurm`: {command: result or list of results}; `asked` holds the argument lists it was given."""

    def __init__(self, **answers: CommandResult | list[CommandResult]) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []

    def __call__(
        self,
        argv: Sequence[str],
        timeout: float,
        environment: Mapping[str, str],
        stdin: str | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        self.asked.append(list(argv))
        self.environments.append(environment)
        answer = self.answers[argv[0].rsplit("/", 1)[-1]]
        return answer.pop(0) if isinstance(answer, list) else answer

    def slurm(self, **options: object) -> Slurm:
        """The runner under test with these answers; only the answered commands are on this host."""
        return Slurm(
            self,
            environment={"PATH": "/usr/bin"},
            which=lambda name, path: f"/usr/bin/{name}" if name in self.answers else None,
            **options,  # type: ignore[arg-type]
        )

    @property
    def programs(self) -> list[str]:
        return [argv[0].rsplit("/", 1)[-1] for argv in self.asked]


def said(stdout: str = "", stderr: str = "", rc: int = 0, timed_out: bool = False) -> CommandResult:
    return CommandResult(("command",), rc, stdout, stderr, timed_out)


UNKNOWN_ID = said(stderr="slurm_load_jobs error: Invalid job id specified\n", rc=1)
NO_ACCOUNTING = said(stderr="Slurm accounting storage is disabled\n", rc=1)
NO_CONTROLLER = said(
    stderr="slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
    rc=1,
)
NO_DATABASE = said(
    stderr="sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to "
    "host:127.0.0.1:27998: Connection refused\nsacct: error: Sending PersistInit msg: Connection refused\n"
    "sacct: error: Problem talking to the database: Connection refused\n",
    rc=1,
)
