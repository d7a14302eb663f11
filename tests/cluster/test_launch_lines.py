# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines on each node before and after the ranks (`setup`) where nodes are of several roles, where a spare one steps in,
and in an image; and the writable copy of the code, which is one for all attempts of a launch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.launching import JOB_SECONDS, RESULT, Site, log_of, nothing_left, rank_logs, read_json
from tests.cluster.test_launch_containers import contained
from tests.cluster.test_roles import of_roles

#: Notes on which node, in which attempt and whether in the image a line runs, by the name of a file.
NOTE = 'touch "{}-$SLURMD_NODENAME-$RANKZERO_ATTEMPT-${{INSIDE:-node}}"'
#: The same of a rank, which has to find what its node has noted before it.
RANK = '[ -e before-$SLURMD_NODENAME-$RANKZERO_ATTEMPT-node ] || exit 9; touch "{}-$SLURMD_NODENAME-$RANKZERO_ATTEMPT"'
SETUP = {"before_ranks": [NOTE.format("before")], "after_ranks": [NOTE.format("after")], "budget": 60}


def noted(run: Path, name: str, attempt: int = 0, of: str = "-node") -> set[str]:
    """The nodes on which something was noted in an attempt."""
    end = f"-{attempt}{of}"
    return {path.name[len(name) + 1 : -len(end)] for path in (run / "work").glob(f"{name}-*{end}")}


def nodes_of(run: Path) -> list[str]:
    nodes: list[str] = read_json(run / "started.json")["nodes"]
    return nodes


def test_the_nodes_of_all_roles_have_them(site: Site) -> None:
    """Before any role, and after the one that decides: what others left is still there to be copied out."""
    roles: dict[str, Any] = {
        "server": {"shell": f"{RANK.format('server')}; touch ready-$RANK; sleep 3600", "nodes": 2},
        "client": {
            "shell": f"{RANK.format('client')}; until [ -e ready-0 ] && [ -e ready-1 ]; do sleep 0.1; done; {RESULT}",
            "nodes": 1,
        },
    }
    job = of_roles(site, roles, {}, setup=SETUP)
    launch = site.launch(job)
    run = site.run_dir(launch)
    assert site.outcome(launch)["success"], (log_of(run, launch["job_id"]), rank_logs(run))
    nodes = {*nodes_of(run)}
    assert len(nodes) == 3 and noted(run, "before") == noted(run, "after") == nodes
    assert noted(run, "server", of="") | noted(run, "client", of="") == nodes
    nothing_left(site, launch)


def test_a_spare_node_that_steps_in_has_them_before_its_ranks(site: Site) -> None:
    if site.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    program = f"{RANK.format('rank')}; [ $RANKZERO_ATTEMPT = 1 ] || exec sleep 3600; {RESULT}"
    job = site.job(
        program, artifact={}, setup=SETUP, resources={"time": "00:10:00", "nodes": 2, "spares": 1},
        checkpoint={"progress": "saved", "requeue": True},
    )  # fmt: skip
    launch = site.launch(job)
    run = site.run_dir(launch)
    site.lab.wait_until(lambda: len(noted(run, "rank", of="")) == 2, JOB_SECONDS, "both ranks run")
    first = nodes_of(run)
    # The spare one has no ranks, and nothing to stage in.
    assert noted(run, "before") == {*first}
    try:
        site.lab.faults.power_off(first[1])
        assert site.ended(launch["job_id"]) == "COMPLETED", (log_of(run, launch["job_id"]), rank_logs(run))
    finally:
        site.lab.faults.power_on(first[1])
    second = {*nodes_of(run)}
    assert first[1] not in second and len(second) == 2
    assert noted(run, "rank", 1, of="") == noted(run, "before", 1) == noted(run, "after", 1) == second
    nothing_left(site, launch)


def test_they_run_on_the_node_and_not_in_the_image_of_the_ranks(site: Site) -> None:
    image = contained(site)
    setup = {**SETUP, **image.pop("setup")}
    program = f"{RANK.format('rank')}; [ $INSIDE = torch ] || exit 8; {RESULT}"
    launch = site.launch(
        site.job(program, artifact={}, setup=setup, resources={"time": "00:10:00", "nodes": 2}, **image)
    )
    run = site.run_dir(launch)
    assert site.outcome(launch)["success"], (log_of(run, launch["job_id"]), rank_logs(run))
    assert noted(run, "before") == noted(run, "after") == noted(run, "rank", of="") == {*nodes_of(run)}


#: Writes beside itself, and requeues its job once.
BESIDE = """
import os, subprocess
here = os.path.dirname(os.path.abspath(__file__))
seen = os.path.join(here, "seen")
attempts = open(seen).read().split() if os.path.exists(seen) else []
print("found", attempts, flush=True)
open(seen, "a").write(os.environ["RANKZERO_ATTEMPT"] + "\\n")
if not attempts:
    subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True)
    __import__("time").sleep(3600)
open("result.json", "w").write('{"loss": 1}')
"""


def test_writable_code_is_one_copy_for_all_attempts_of_a_launch_and_no_other_sees_it(site: Site) -> None:
    (site.folder / "code" / "beside.py").write_text(BESIDE, encoding="utf-8")
    job = site.job(
        ["beside.py"], artifact={}, code={"src": str(site.folder / "code"), "writable": True},
        checkpoint={"signal_before_end": 60, "requeue": True},
    )  # fmt: skip
    launches = [site.launch({**job, "name": f"{job['name']}-{number}"}) for number in (1, 2)]
    for launch in launches:
        run = site.run_dir(launch)
        assert site.ended(launch["job_id"]) == "COMPLETED", (log_of(run, launch["job_id"]), rank_logs(run))
        assert read_json(run / "outcome.json")["attempt"] == 1
        found = ["".join(rank_logs(run, attempt).values()) for attempt in (0, 1)]
        assert "found []" in found[0] and "found ['0']" in found[1], found
        assert (run / "work" / "seen").read_text(encoding="utf-8") == "0\n1\n"
    # The published code, which other launches share, is as it was.
    (code,) = {source["path"] for launch in launches for source in launch["sources"] if source["kind"] == "code"}
    assert not (site.host_path(code) / "seen").exists() and (site.host_path(code) / "beside.py").exists()
