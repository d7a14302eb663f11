# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which secrets.env a rank reads: this user's own file, mode 0600, no link; and of it what the job asks for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.runtime.harness import Site

PLANTED = "TOKEN=cGxhbnRlZA==\n"


def a_link(secrets: Path) -> None:
    secrets.rename(secrets.with_name("elsewhere"))
    secrets.symlink_to("elsewhere")


def a_pipe(secrets: Path) -> None:
    secrets.unlink()
    os.mkfifo(secrets, 0o600)


def readable_by_others(secrets: Path) -> None:
    secrets.chmod(0o640)


def another_users(secrets: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(secrets, 54321, 54321)


@pytest.mark.parametrize("change", [a_link, a_pipe, readable_by_others, another_users])
def test_a_rank_reads_no_other_file(site: Site, change: Callable[[Path], None]) -> None:
    job = site.job({}, secrets={"TOKEN": "x"})
    (job.run / "secrets.env").write_text(PLANTED, encoding="utf-8")
    change(job.run / "secrets.env")
    # 77: the script itself saw it, and takes nothing of such a run directory in its hands. 78: a rank did.
    code = job.finish()
    assert code in (77, 78)
    logs = [path.read_text(encoding="utf-8") for path in job.run.glob("logs/**/*.log")]
    assert any("secrets" in text for text in logs), logs
    assert not list(job.run.glob("seen-*.json")), "no rank began"
    assert code == 77 or not os.path.lexists(job.run / "secrets.env"), "it goes at the end all the same"


def test_only_what_the_job_asks_for_becomes_a_variable(site: Site) -> None:
    job = site.job({}, secrets={"TOKEN": "x"})
    with (job.run / "secrets.env").open("a", encoding="utf-8") as stream:
        stream.write("PATH=L25vd2hlcmU=\nLD_PRELOAD=L3g=\na[$(touch canary)]=eA==\n")
    assert job.finish() == 0, job.log()
    assert job.seen()["env"].get("TOKEN") == "x" and "LD_PRELOAD" not in job.seen()["env"]
    assert not list(job.run.rglob("canary"))
