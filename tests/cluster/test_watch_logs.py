# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""job_logs against logs that real jobs wrote, run by ansible-playbook as a user runs it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.watching import Bench, Run, bench

__all__ = ["bench"]

RANKS = 'for r in 0000 0001 0002; do echo "rank $r of job $SLURM_JOB_ID" > $RUN/logs/0/rank-$r.log; done; echo done'

#: The way through which Ansible sends no module by pipelining, in place of the lab's own.
SU = {
    "ansible_become": True,
    "ansible_become_method": "ansible.builtin.su",
    "ansible_become_exe": "su",
    "ansible_become_flags": "",
}


def logs(folder: Path) -> dict[str, bytes]:
    """Path -> content of all logs below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def run(bench: Bench) -> Run:
    made = bench.submit(RANKS)
    bench.ended(made)
    return made


def fetch(bench: Bench, run: Run, **options: Any) -> dict[str, Any]:
    return bench.task("job_logs", run_dir=run.path, **options)


def test_every_rank_and_the_second_time_only_what_is_new(bench: Bench, run: Run) -> None:
    first = fetch(bench, run, dest="fetched")
    dest = Path(first["dest"])
    assert dest == bench.folder / "fetched" / run.name / run.key / "1" / "logs"
    assert logs(dest) == logs(run.here / "logs")
    assert sorted(logs(dest)) == [
        "0/rank-0000.log",
        "0/rank-0001.log",
        "0/rank-0002.log",
        f"job.{run.job_id}.log",
    ]
    assert first["changed"] and first["rounds"] == 1 and first["archive_bytes"] > 0
    assert first["bytes"] == sum(map(len, logs(dest).values())) == sum(file["bytes"] for file in first["files"])

    second = fetch(bench, run, dest="fetched")
    assert (second["changed"], second["bytes"], second["files"], second["rounds"]) == (False, 0, [], 0)

    with (run.here / "logs" / "0" / "rank-0001.log").open("ab") as stream:
        stream.write(b"\xff\xfe\x00binary")
    (run.here / "logs" / "0" / "rank-0002.log").write_bytes(b"anew")
    planned = fetch(bench, run, dest="fetched", check=True)
    assert (planned["changed"], planned["bytes"], planned["rounds"]) == (True, 13, 0)
    assert logs(dest) != logs(run.here / "logs"), "check mode fetches nothing"
    third = fetch(bench, run, dest="fetched")
    assert (third["changed"], third["bytes"], third["rounds"]) == (True, 13, 1)
    assert {file["path"]: file["restart"] for file in third["files"]} == {
        "0/rank-0001.log": False,
        "0/rank-0002.log": True,
    }
    assert logs(dest) == logs(run.here / "logs")


def test_a_launch_of_the_same_key_under_another_state_root_has_a_folder_of_its_own(bench: Bench, run: Run) -> None:
    first = fetch(bench, run, dest="fetched")
    path = f"{bench.state_root}.other/runs/{run.name}/{run.key}/1"
    copied = bench.here(path)
    shutil.copytree(run.here, copied)
    (copied / "logs" / "0" / "rank-0002.log").write_bytes(b"of the other")
    other = bench.task("job_logs", run_dir=path, dest="fetched")
    assert Path(other["dest"]).parent.name.startswith("1-") and logs(Path(other["dest"])) == logs(copied / "logs")
    assert logs(Path(first["dest"])) == logs(run.here / "logs")
    for one in (first, other):
        again = bench.task("job_logs", run_dir=one["run_dir"], dest="fetched")
        assert (again["dest"], again["bytes"]) == (one["dest"], 0)


def test_nothing_stays_behind_on_the_cluster(bench: Bench, run: Run) -> None:
    """Neither where Ansible becomes another user nor where it does not, and not where nothing can be written here."""
    folder = bench.user.place(f"tmp-{bench.folder.name}")
    there = {"TMPDIR": folder}
    left = ["sh", "-c", f"ls -d {folder}/* ~/.ansible/tmp/*/rankzero-logs-* 2>/dev/null"]
    (bench.folder / "taken").write_text("a file")
    for host in ({}, SU):
        fetch(bench, run, host=host, there=there, dest=f"fetched-{len(host)}")
        assert "taken" in fetch(bench, run, host=host, there=there, dest="taken", fails=True)["msg"]
        assert bench.lab.head(left, check=False).stdout == ""


def test_under_become(bench: Bench, run: Run) -> None:
    first = fetch(bench, run, host=SU)
    assert logs(Path(first["dest"])) == logs(run.here / "logs")
    assert (first["rounds"], fetch(bench, run, host=SU)["bytes"]) == (1, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user without a password")
def test_as_a_user_whose_files_the_login_user_may_not_read(bench: Bench) -> None:
    """No Slurm is needed to fetch logs, so this machine itself is the cluster here."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        there = Path(folder) / "runs" / "private" / "0123456789abcdef" / "1" / "logs"
        there.mkdir(parents=True)
        (there / "job.7.log").write_bytes(b"\xffprivate")
        shutil.chown(there / "job.7.log", "nobody")
        (there / "job.7.log").chmod(0o600)
        nobody = {
            **SU,
            "ansible_become_user": "nobody",
            # It has no login shell, and no home that it could write to.
            "ansible_become_flags": "-s /bin/sh",
            "ansible_remote_tmp": f"{folder}/tmp",
            "ansible_shell_allow_world_readable_temp": True,
        }
        found = bench.task("job_logs", through="/bin/sh", host=nobody, run_dir=str(there.parent))
        assert logs(Path(found["dest"])) == {"job.7.log": b"\xffprivate"}


def test_the_launch_by_name_job_id_and_the_end_of_giant_logs(bench: Bench, run: Run) -> None:
    (run.here / "logs" / "0" / "rank-0000.log").write_bytes(b"x" * 100_000)
    where = {"state_root": bench.state_root, "tail_bytes": 50}
    found = bench.task("job_logs", job_id=run.job_id, **where)
    assert found["run_dir"] == run.path
    assert (Path(found["dest"]) / "0" / "rank-0000.log").read_bytes() == b"x" * 50
    again = bench.task("job_logs", name=run.name, key=run.key, generation=1, **where)
    assert (again["dest"], again["bytes"]) == (found["dest"], 0)
    assert "100 kB of 0/rank-0000.log" in again["omitted"]
    # A log of this size is fetched whole by default, also where an earlier fetch left its beginning out.
    whole = bench.task("job_logs", job_id=run.job_id, state_root=bench.state_root)
    assert (whole["bytes"], whole["omitted"]) == (100_000, None)


def test_no_such_launch(bench: Bench) -> None:
    failed = bench.task("job_logs", job_id="999999", state_root=bench.state_root, fails=True)
    assert "no launch with job_id=999999 is recorded" in failed["msg"]
