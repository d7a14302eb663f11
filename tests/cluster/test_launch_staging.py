# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code and environment that not every node sees: copied by sbcast to those that lack them, gone at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import RESULT, UNTIL_GO, Site, log_of, node_folders, rank_logs

NODES = ["node02", "node03", "node04"]
#: Says where it runs and from what, reads a file of the code by a relative path, and leaves one that all nodes see.
PROGRAM = """\
import glob, json, os, sys, time
import helper
said = {"node": os.environ["SLURMD_NODENAME"], "prefix": sys.prefix, "helper": helper.__file__, "cwd": os.getcwd(),
        "venv": os.environ["VIRTUAL_ENV"], "path": os.environ["PATH"], "data": open("data/text").read()}
rank = os.environ["RANK"]
with open("saying-" + rank, "w") as stream:
    json.dump(said, stream)
os.rename("saying-" + rank, "said-" + rank + ".json")
if rank == "0":
    with open("result.json", "w") as stream:
        stream.write('{"loss": 1.0}')
# The first one to fail ends the others.
while len(glob.glob("said-*.json")) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.1)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    if lab.way != "realistic":
        pytest.skip("nodes of the simple way share the host's folders: none can lack what another one has")
    made = Site(lab, tmp_path, request.node.name)
    code = tmp_path / "code"
    (code / "data").mkdir()
    (code / "data" / "text").write_text("read", encoding="utf-8")
    (code / "helper.py").touch()
    (code / "prog.py").write_text(PROGRAM, encoding="utf-8")
    (code / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\n')
    yield made
    made.close()


def job(site: Site, program: Any, **more: Any) -> dict[str, Any]:
    """A job on NODES, with an environment."""
    return site.job(
        program,
        resources={"nodes": len(NODES), "time": "00:10:00", "sbatch": {"nodelist": ",".join(NODES)}},
        environment={"mode": "venv", "project": str(site.folder / "code")},
        **more,
    )


def made_store(site: Site) -> str:
    """The store's path. What does not exist cannot be hidden."""
    store = site.cluster["store_root"]
    site.own(store)
    return store


def table(run: Path) -> dict[str, str]:
    lines = (run / "preflight" / "0" / "table").read_text().splitlines()
    return {line.split()[0]: line for line in lines}


def said(run: Path) -> dict[str, dict[str, str]]:
    """What each node's rank said."""
    found = [json.loads(path.read_text()) for path in (run / "work").glob("said-*.json")]
    return {one["node"]: one for one in found}


def test_a_node_that_does_not_see_the_store_works_on_a_copy(site: Site) -> None:
    store = made_store(site)
    site.lab.faults.hide("node03", store)
    try:
        launch = site.launch(job(site, ["prog.py", "0"], artifact={}))
        outcome, run = site.outcome(launch), site.run_dir(launch)
        site.ended(launch["job_id"])
        assert outcome["success"], (outcome, log_of(run, launch["job_id"]))
        lines = table(run)
        assert "proj=ok env=ok" in lines["node02"] and "proj=ok env=ok" in lines["node04"]
        assert "proj=staged env=staged" in lines["node03"] and "python=3." in lines["node03"]
        ranks, own = said(run), f"rankzero-{site.user.uid}-{launch['job_id']}"
        for node in NODES:
            assert re.fullmatch(f"/tmp/{own}-[0-9a-f]{{8}}/environment", ranks[node]["prefix"])
            assert ranks[node]["venv"] == ranks[node]["prefix"]
            assert ranks[node]["path"].startswith(f"{ranks[node]['prefix']}/bin:")
            assert ranks[node]["data"] == "read"
            assert Path(ranks[node]["cwd"]).name == "work"
        assert ranks["node02"]["helper"].startswith(f"{store}/code/")
        # Not in the node's /tmp, which is memory in this lab: on its disk.
        assert re.match(f"/var/tmp/{own}-\\w+/code.copy/tree/helper", ranks["node03"]["helper"])
        assert not node_folders(site.lab, *NODES)
        sent = json.loads((run / "preflight" / "0" / "stage" / "plan").read_text())
        assert sent["code"]["nodes"] == sent["environment"]["nodes"] == ["node03"]
        # The working directory leads to the snapshot again.
        assert (run / "work" / "prog.py").readlink().as_posix().startswith(f"{store}/code/")
    finally:
        site.lab.faults.unhide("node03", store)


def test_the_first_node_gets_its_copy_from_another_one_and_a_failing_program_leaves_nothing(site: Site) -> None:
    store = made_store(site)
    site.lab.faults.hide("node02", store)
    try:
        launch = site.launch(job(site, ["prog.py", "3"], artifact={}))
        outcome, run = site.outcome(launch), site.run_dir(launch)
        site.ended(launch["job_id"])
        assert (outcome["ended_by"], outcome["exit_code"]) == ("program", 3), (outcome, rank_logs(run))
        assert "proj=staged env=staged" in table(run)["node02"]
        assert "copying the code to the nodes that are to have it, from node03" in log_of(run, launch["job_id"])
        assert set(said(run)) == set(NODES)
        assert not node_folders(site.lab, *NODES)
    finally:
        site.lab.faults.unhide("node02", store)


def test_a_store_that_no_node_sees_is_packed_once_and_a_cancelled_job_leaves_nothing(site: Site) -> None:
    # The head has the files of this machine, the nodes do not.
    site.cluster = {**site.cluster, "store_root": f"{site.on_the_head()}/store", "store_shared": False}
    launch = site.launch(job(site, f"cat data/text; {UNTIL_GO}; {RESULT}"))
    run = site.run_dir(launch)
    read = lambda: sum("read" in text for text in rank_logs(run).values()) == len(NODES)  # noqa: E731
    site.lab.wait_until(read, 120, "each rank has read from its copy")
    assert all("proj=staged env=staged" in table(run)[node] for node in NODES)
    assert {each.partition(":")[0] for each in node_folders(site.lab, *NODES)} == set(NODES)
    packed = sorted(path.name for path in site.host_path(site.state_root).glob("archives/*"))
    assert len(packed) == 4 and packed[0].startswith("code-"), packed
    site.lab.head(["scancel", launch["job_id"]])
    assert site.ended(launch["job_id"]) == "CANCELLED"
    site.lab.wait_until(lambda: not node_folders(site.lab, *NODES), 60, "the nodes have removed their copies")


def test_a_damaged_copy_is_named_and_no_rank_starts(site: Site) -> None:
    store = made_store(site)
    site.own(site.state_root)
    evil = site.own(f"{site.state_root}/evil")
    site.program(
        "sbcast",
        'shift; printf x | dd of="$2" bs=1 seek=700 conv=notrunc 2> /dev/null; exec /usr/bin/sbcast --force "$@"',
        evil,
    )
    site.lab.faults.hide("node04", store)
    try:
        launch = site.launch(job(site, "true", setup={"commands": [f'export PATH="{site.state_root}/evil:$PATH"']}))
        outcome, run = site.outcome(launch), site.run_dir(launch)
        site.ended(launch["job_id"])
    finally:
        site.lab.faults.unhide("node04", store)
    assert re.match(
        r"preflight: node04: staging the code: damaged in transfer: \w{16} was sent, and \w{16} arrived \(sha256\); "
        r"node04: staging the environment: damaged in transfer: ",
        outcome["message"],
    ), outcome
    assert not rank_logs(run)
    assert not node_folders(site.lab, *NODES)
