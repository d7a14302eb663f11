# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sealed environments in jobs: one file a node, with and without FUSE, damaged, unseen, and after a killed job."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import UNTIL_GO, Site, log_of, node_folders, nothing_left, rank_logs, read_json
from tests.cluster.test_dataset import role, staged, texts
from tests.cluster.test_launch_resume import begun

#: Says from where it runs: its interpreter, its library.
PROGRAM = """\
import json, os, sys
say = {"node": os.environ["SLURMD_NODENAME"], "prefix": sys.prefix, "library": json.__file__, "user": os.getuid()}
print(json.dumps({**say, "path": os.environ["PATH"].split(":")[0], "venv": os.environ.get("VIRTUAL_ENV")}))
if os.environ["RANK"] == "0":
    with open("result.json", "w") as stream:
        stream.write('{"loss": 1.0}')
"""
#: The mounts of sealed environments on a node, and the processes that hold them.
MOUNTED = """
grep -o '/[^ ]*/sealed.mount' /proc/mounts
for one in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $one 2>/dev/null | grep -o '[s]quashfuse.*sealed.mount'; done
true
"""
#: Ends whoever holds a mount, as nothing that Slurm sends does.
KILL = """
for one in /proc/[0-9]*; do
    tr '\\0' ' ' < $one/cmdline 2>/dev/null | grep -q '[s]ealed.py hold\\|[s]quashfuse' && kill -9 ${one#/proc/}
done
true
"""


def prepared(made: Site) -> Site:
    """A project that needs no package: what is tested is how its Python comes to the nodes."""
    if shutil.which("mksquashfs") is None or shutil.which("unsquashfs") is None:
        pytest.skip("mksquashfs is not on this machine (package squashfs-tools)")
    code = made.folder / "code"
    (code / "prog.py").write_text(PROGRAM, encoding="utf-8")
    project = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\n'
    (code / "pyproject.toml").write_text(project, encoding="utf-8")
    return made


def job(site: Site, program: Any, nodes: list[str], **more: Any) -> dict[str, Any]:
    resources = {"nodes": len(nodes), "time": "00:05:00", "sbatch": {"nodelist": ",".join(nodes)}}
    return site.job(
        program,
        **{
            **more,
            "resources": {**resources, **more.get("resources", {})},
            "environment": {"mode": "sealed", "project": str(site.folder / "code"), **more.get("environment", {})},
        },
    )


def said(run: Path) -> dict[str, dict[str, Any]]:
    """What the ranks said, by node."""
    found = [json.loads(line) for text in rank_logs(run).values() for line in text.splitlines() if line.startswith("{")]
    return {one["node"]: one for one in found}


def words(run: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in (run / "sealed" / "0").glob("node*.json")}


def left(site: Site, node: str) -> str:
    """What of any job is on a node: its folders, mounts, and the processes that hold them."""
    return "\n".join([*node_folders(site.lab, node), str(site.lab.node(node, ["sh", "-c", MOUNTED]).stdout)]).strip()


@pytest.fixture
def user_site(site_lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(site_lab, tmp_path, request.node.name)
    made.cluster["resources"] = {"account": profile.ACCOUNT, "memory": "500M"}
    yield prepared(made)
    made.close()


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    if lab.way != "realistic":
        pytest.skip("nodes of the simple way share the host's folders: none can lack what another one has")
    made = Site(lab, tmp_path, request.node.name)
    yield prepared(made)
    made.close()


def test_an_ordinary_users_ranks_run_from_one_file_with_and_without_fuse(user_site: Site) -> None:
    """Under control groups, a private /tmp and a share over the network; node02 has no FUSE."""
    site, lab = user_site, user_site.lab
    lab.node("node02", ["chmod", "600", "/dev/fuse"])
    try:
        launch = site.launch(job(site, ["prog.py"], ["node01", "node02"], artifact={}))
        outcome, run = site.outcome(launch), site.run_dir(launch)
        site.ended(launch["job_id"])
    finally:
        lab.node("node02", ["chmod", "666", "/dev/fuse"])
    log = log_of(run, launch["job_id"])
    assert outcome["success"], (outcome, log, (run / "sealed" / "0" / "hold.log").read_text())
    how = {name: word["how"] for name, word in words(run).items()}
    # The share is a network file system: whether a copy pays depends on the disks of this machine.
    assert how["node02"].split(",")[0] == "unpacked", how
    if os.path.exists("/dev/fuse") and shutil.which("squashfuse"):
        assert how["node01"].split(",")[0] == "squashfuse", how
    ranks = said(run)
    assert set(ranks) == {"node01", "node02"}
    for one in ranks.values():
        assert re.fullmatch(rf"/tmp/rankzero-{profile.UID}-{launch['job_id']}-[0-9a-f]{{8}}/sealed", one["prefix"])
        assert one["library"].startswith(one["prefix"] + "/lib/python3.")
        assert (one["user"], one["path"], one["venv"]) == (profile.UID, one["prefix"] + "/bin", None)
    assert "env=sealed" in (run / "preflight" / "0" / "table").read_text()
    lab.wait_until(lambda: not left(site, "node01") + left(site, "node02"), 30, "nothing is left on the nodes")


def test_a_file_that_is_damaged_on_one_node_is_read_twice_and_the_node_left_out(user_site: Site) -> None:
    site, lab = user_site, user_site.lab
    first = site.launch(job(site, ["prog.py"], ["node01"], name="first", artifact={}))
    assert site.outcome(first)["success"]
    (made,) = json.loads((site.run_dir(first) / "launch.json").read_text())["refs"][1:2]
    file = Path(site.host_path(made["path"]), "environment.sqsh")
    damaged = site.host_path(site.state_root) / "damaged.sqsh"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    damaged.chmod(0o644)
    target = f"{made['path']}/environment.sqsh"
    lab.node("node02", ["mount", "--bind", f"{site.state_root}/damaged.sqsh", target])
    try:
        second = site.launch(
            job(
                site,
                ["prog.py"],
                ["node01", "node02"],
                resources={"nodes": 1, "spares": 1},
                preflight={"on_failure": "replace", "exclude_for": 0},
                artifact={},
            )
        )
        outcome, run = site.outcome(second), site.run_dir(second)
        site.ended(second["job_id"])
    finally:
        lab.node("node02", ["umount", target])
    assert outcome["success"], (outcome, log_of(run, second["job_id"]))
    assert set(said(run)) == {"node01"}
    problem = words(run)["node02"]["problem"]
    assert re.fullmatch(
        rf"{target} is damaged as this node sees it: it was published with sha256 \w{{16}}, and has \w{{16}} here "
        r"\(read twice\)",
        problem,
    ), problem
    assert f"without node02: environment: {problem}; master" in log_of(run, second["job_id"])


def test_a_node_that_does_not_see_the_store_gets_the_file_and_a_killed_mount_is_cleared(site: Site) -> None:
    store, nodes = site.cluster["store_root"], ["node02", "node03"]
    site.own(store)
    site.lab.faults.hide("node03", store)
    try:
        launch = site.launch(job(site, f"python prog.py; {UNTIL_GO}", nodes, environment={"local_copy": "always"}))
        run = site.run_dir(launch)
        site.lab.wait_until(lambda: set(said(run)) == set(nodes), 120, "the ranks have spoken")
        assert "sending the environment to node03, where its file is not, from node02" in log_of(run, launch["job_id"])
        assert len({one["prefix"] for one in said(run).values()}) == 1
        assert all(left(site, node) for node in nodes)
        # As a node that loses power in the middle of it, but for the mount.
        site.lab.node("node02", ["sh", "-c", KILL])
        site.lab.head(["scancel", launch["job_id"]])
        site.ended(launch["job_id"])
        site.lab.wait_until(lambda: not left(site, "node03"), 60, "node03 has cleaned up")
        assert f"rankzero-{site.user.uid}-{launch['job_id']}-" in left(site, "node02")
    finally:
        site.lab.faults.unhide("node03", store)
    again = site.launch(job(site, ["prog.py"], nodes, name="again", artifact={}))
    assert site.outcome(again)["success"]
    site.ended(again["job_id"])
    site.lab.wait_until(lambda: not left(site, "node02") + left(site, "node03"), 30, "what was left is cleared")


#: Its first attempt waits for the loss of a node, as rank 0 sees it.
LOSES = """
import os, sys, time
print("by", sys.executable, flush=True)
while os.environ["RANKZERO_ATTEMPT"] == "0":
    time.sleep(0.1)
    if os.environ["RANK"] == "0" and os.path.exists("broken"):
        raise SystemExit("connection reset by peer")
data = os.environ["RANKZERO_DATA_TEXTS"]
print("reads", open(data + "/a.txt").read().strip(), os.path.ismount(os.path.realpath(data)), flush=True)
if os.environ["RANK"] == "0":
    open("result.json", "w").write("{}")
"""


# How a wheelhouse comes to the nodes: test_environment_build.py.
@pytest.mark.parametrize(
    ("mode", "name"), [("sealed", "sealed"), pytest.param("wheelhouse", "environment", marks=pytest.mark.more)]
)
def test_a_spare_node_that_steps_in_has_the_environment_and_the_data(site: Site, mode: str, name: str) -> None:
    (site.folder / "code" / "loses.py").write_text(LOSES, encoding="utf-8")
    nodes = ["node01", "node02", "node03"]
    made = staged(role(site, dataset_src=str(texts(site)), dataset_pack=True))["dataset"]
    more = {"resources": {"nodes": 2, "spares": 1}, "environment": {"mode": mode}}
    more["data"] = {"texts": {"path": made["folder"], "packed": True}}
    launch = site.launch(job(site, ["loses.py"], nodes, artifact={"path": "result.json"}, **more))
    run = site.run_dir(launch)
    dead = ""
    try:
        begun(site, launch, 0, "by", ranks=2)
        dead = read_json(run / "started.json")["nodes"][1]
        site.lab.faults.power_off(dead)
        (run / "work" / "broken").touch()
        outcome = site.outcome(launch)
    finally:
        if dead:
            site.lab.faults.power_on(dead)
    assert (outcome["success"], outcome["attempt"]) == (True, 1), (outcome, log_of(run, launch["job_id"]))
    reads = [line for text in rank_logs(run, 1).values() for line in text.splitlines() if line.startswith("reads ")]
    assert reads == ["reads hello slurm True"] * 2, rank_logs(run, 1)
    pythons = {line for text in rank_logs(run, 1).values() for line in text.splitlines() if line.startswith("by ")}
    assert len(pythons) == 1 and f"/{name}/bin/python" in pythons.pop(), rank_logs(run, 1)
    nothing_left(site, launch)
