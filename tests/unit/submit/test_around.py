# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What surrounds a submission: cancelling, secrets, nodes that were not fit or see no store."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import FIELD, RECORD
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Placement
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import runtime_bundle
from tests.unit.submit.bench import NOW, Bench

# --- cancel


def test_cancel(bench: Bench) -> None:
    bench.launch()
    planned = bench.launcher(check_mode=True).cancel().result()
    assert (planned["changed"], planned["job_id"], bench.cluster.jobs["101"]["state"]) == (True, "101", "PENDING")
    assert bench.launcher().cancel().result() == planned
    assert bench.cluster.asked[-1] == ["scancel", "101"]
    assert bench.events() == ["intent", "submitted", "cancelled"]
    again = bench.launcher().cancel().result()
    assert (again["changed"], again["submission"], again["generation"]) == (False, "absent", 1)


def test_cancel_where_nothing_was_ever_launched(bench: Bench) -> None:
    result = bench.launcher().cancel().result()
    assert (result["changed"], result["generation"], result["run_dir"]) == (False, None, None)
    assert bench.cluster.asked == []


def test_cancel_finds_a_job_whose_id_was_never_recorded(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    job_id = bench.cluster.add(bench.name(), "RUNNING")
    assert bench.launcher().cancel().result()["job_id"] == job_id
    assert bench.cluster.jobs[job_id]["state"] == "CANCELLED"


# --- secrets and leftovers


def test_secrets_are_written_0600_from_the_controller_and_from_files_of_the_cluster(bench: Bench) -> None:
    shipped, file = bench.store / "shipped", bench.store / "token"
    shipped.write_bytes(b"A=eA==\n")
    file.write_bytes(b"value\r\n")
    previous = os.umask(0)
    try:
        bench.launch(secrets_file=str(shipped), secret_files={"B": str(file)})
    finally:
        os.umask(previous)
    path = Path(bench.run().file("secrets.env"))
    assert path.read_bytes() == b"A=eA==\nB=" + base64.b64encode(b"value") + b"\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_secrets_there_is_no_file(bench: Bench) -> None:
    bench.launch()
    assert not os.path.exists(bench.run().file("secrets.env"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"secrets.B: the file \S+ cannot be read on the cluster: No such file"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"a\0b", "contains a NUL character"),
    ],
)
def test_a_secrets_file_of_the_cluster_that_will_not_do(bench: Bench, content: bytes | None, message: str) -> None:
    path = bench.store / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RankzeroError, match=message):
        bench.launch(secret_files={"B": str(path)})
    assert list(bench.runs.iterdir()) == []
    assert "sbatch" not in bench.cluster.commands


@pytest.mark.parametrize(("success", "state"), [(True, "COMPLETED"), (False, "FAILED")])
def test_secrets_of_a_launch_that_has_ended_are_removed(bench: Bench, success: bool, state: str) -> None:
    shipped = bench.store / "shipped"
    shipped.write_bytes(b"A=eA==\n")
    bench.launch(secrets_file=str(shipped))
    assert os.path.exists(bench.run().file("secrets.env"))
    bench.launch()
    assert os.path.exists(bench.run().file("secrets.env")), "its job is active"
    bench.ends(success)
    bench.leaves(state)
    bench.launch(relaunch="never")
    assert not os.path.exists(bench.run().file("secrets.env"))


def test_what_a_killed_submitter_left_half_made_is_removed_once_it_is_old(bench: Bench) -> None:
    old, young = bench.runs / ".new-host-1-1", bench.runs / ".new-host-2-2"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "secrets.env").write_text("A=eA==\n", encoding="utf-8")
    os.utime(old, (1, 1))
    bench.launch()
    assert sorted(path.name for path in bench.runs.iterdir()) == [".new-host-2-2", "1"]


# --- nodes that were not fit


def test_a_submission_leaves_out_nodes_that_were_not_fit_besides_the_jobs_own(bench: Bench) -> None:
    folder = bench.runs.parents[2] / "clusters" / "lab" / "nodes"
    folder.mkdir(parents=True)
    text = {"node": "node07", "reason": "no code", "job_id": "9", "time": NOW - 5, "expires": NOW + 5}
    (folder / "node07.json").write_text(json.dumps(text), encoding="utf-8")
    asked: dict[str, str] = {"show config": "ClusterName = lab\n", "show hostnames": "node01\nnode02\n"}
    real = bench.cluster._scontrol
    bench.cluster._scontrol = lambda argv: (0, asked[" ".join(argv[:2])], "") if argv[0] == "show" else real(argv)  # type: ignore[method-assign]
    rows = [(f"node0{number}", "16", "1000", "", "idle", "batch*", "") for number in range(1, 9)]
    sinfo = bench.cluster._sinfo
    bench.cluster._sinfo = lambda argv: (  # type: ignore[method-assign]
        (0, "".join(FIELD.join(row) + RECORD + "\n" for row in rows), "") if "--Node" in argv else sinfo(argv)
    )
    placement = Placement(exclude=["node[01-02]"])
    planned = bench.launch(check_mode=True, placement=placement)
    result = bench.launch(placement=placement)
    assert planned["excluded"] == result["excluded"] == [text]
    (words,) = [words for words in bench.cluster.asked if words[0] == "sbatch" and "--parsable" in words]
    assert "--exclude=node[01-02],node07" in words
    # Slurm's own word is on the same nodes.
    (words,) = [words for words in bench.cluster.asked if words[0] == "sbatch" and "--test-only" in words]
    assert "--exclude=node[01-02],node07" in words
    bench.time = NOW + 6
    assert bench.launch(placement=placement)["excluded"] == []


def test_a_job_that_has_put_itself_back_into_the_queue_is_still_ours(bench: Bench) -> None:
    bench.launch()
    bench.ends(False, ended_by="requeue")
    bench.leaves("REQUEUED")
    result = bench.launch()
    assert (result["submission"], result["standing"]) == ("adopted", "waiting")


# --- nodes that see no store


def packing(bench: Bench) -> dict[str, Any]:
    """The parts of a request whose code must be packed."""
    (bench.store / "train.py").write_text("x = 1\n" * 99, encoding="utf-8")
    archive = bench.store.parent / "state" / "archives" / "code-k.tar"
    key, files = runtime_bundle()
    runtime = str(bench.store.parent / "runtime" / key)
    publish_files(runtime, files)
    refs = [*bench.request.refs, Ref("runtime", key, runtime)]
    return {"refs": refs, "archives": [{"folder": str(bench.store), "archive": str(archive)}]}


def test_what_the_nodes_do_not_see_is_packed_before_the_job_is_submitted(bench: Bench) -> None:
    changes = packing(bench)
    archive = Path(changes["archives"][0]["archive"])
    bench.launch(check_mode=True, **changes)
    assert not archive.exists()
    bench.cluster.before["sbatch"] = lambda: known.append(archive.stat())
    known: list[os.stat_result] = []
    assert bench.launch(**changes)["submission"] == "submitted"
    assert known and Path(f"{archive}.json").exists()
    bench.ends(True)
    assert bench.launch(relaunch="always", **changes)["generation"] == 2
    assert archive.stat().st_mtime_ns == known[0].st_mtime_ns, "packed once"


def test_what_another_has_packed_is_not_sent(bench: Bench) -> None:
    changes = packing(bench)
    archive = Path(changes["archives"][0]["archive"])
    archive.parent.mkdir(parents=True)
    archive.touch()
    archive.chmod(0o666)
    with pytest.raises(RankzeroError, match=r"state_root: \S+code-k.tar can be written by others .*remove it"):
        bench.launch(**changes)
    assert "sbatch" not in bench.cluster.commands


def test_what_cannot_be_packed_is_not_submitted(bench: Bench) -> None:
    changes = packing(bench)
    (bench.store.parent / "state").mkdir()
    (bench.store.parent / "state" / "archives").touch()
    with pytest.raises(RankzeroError, match=r"state_root: cannot pack \S+/store as .*launch_cluster.store_shared"):
        bench.launch(**changes)
    assert "sbatch" not in bench.cluster.commands
    assert not bench.runs.exists()
