# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers on a real Slurm: ranks through a stand-in for apptainer, and what this lab refuses.

tests/stand_ins.py says what the stand-in keeps of the real one; test_launch_apptainer.py runs that where it can be had.
"""

from __future__ import annotations

import re
from typing import Any

from tests.cluster.launching import Site, log_of, nothing_left, rank_logs, read_json
from tests.cluster.roles_programs import CLIENT, SERVER
from tests.stand_ins import apptainer

SHOW = 'echo "I am $RANK of $WORLD_SIZE in $(pwd), home $HOME, image $INSIDE, threads $OMP_NUM_THREADS"'


def contained(site: Site, **container: Any) -> dict[str, Any]:
    """The parts of a job that run it in an image, with the command and the image on /shared."""
    inside = f"{site.state_root}.tools"
    folder = site.host_path(inside)
    apptainer(folder)
    values = ["PATH=/usr/bin:/bin", "INSIDE=torch", "RANK=77", "WORLD_SIZE=77", "OMP_NUM_THREADS=99"]
    (folder / "torch.sif").write_text("\n".join(["SIF_MAGIC", *values, ""]))
    site.user.give(folder)
    return {
        "setup": {"commands": [f"export PATH={inside}:$PATH"]},
        "container": {"runtime": "apptainer", "image": f"{inside}/torch.sif", **container},
    }


def test_ranks_run_in_the_image_and_prove_their_result(site: Site) -> None:
    data = f"{site.state_root}.data"
    site.own(data)
    job = site.job(
        f"{SHOW}; [ $RANK != 0 ] || echo '{{\"loss\": 1.5}}' > result.json",
        resources={"nodes": 2, "cpus_per_rank": 2, "time": "00:10:00"},
        launcher={"ranks_per_node": 2},
        artifact={"require": {"loss": {"lt": 2}}},
        **contained(site, mounts=[f"{data}:/data:ro"]),
    )
    launch = site.launch(job)
    outcome = site.outcome(launch)
    run = site.run_dir(launch)
    assert outcome["success"] and outcome["artifact"]["valid"], log_of(run, launch["job_id"])
    logs = rank_logs(run)
    assert sorted(logs) == [f"rank-{rank:04d}.log" for rank in range(4)]
    for rank, text in enumerate(logs.values()):
        where = launch["run_dir"]
        assert f"I am {rank} of 4 in {where}/work, home {where}/home, image torch, threads 2\n" in text
    table = (run / "preflight" / "0" / "table").read_text().splitlines()
    assert len([line for line in table if "image=ok mounts=ok apptainer=ok" in line]) == 2


def test_an_image_and_a_mount_that_a_node_lacks_are_named_and_no_rank_starts(site: Site) -> None:
    launch = site.launch(site.job(SHOW, **contained(site, mounts=["/nowhere/data:/data"], image="/nowhere/torch.sif")))
    outcome = site.outcome(launch)
    assert not outcome["success"]
    assert re.match(
        r"preflight: \w+: the image /nowhere/torch.sif is not here; "
        r"\w+: mount sources missing on this node: /nowhere/data$",
        outcome["message"],
    )
    assert rank_logs(site.run_dir(launch)) == {}


def test_pyxis_is_not_here_and_nothing_is_submitted(site: Site) -> None:
    job = site.job(SHOW, container={"runtime": "pyxis", "image": "/images/torch.sqsh"})
    played = site.play(job)
    assert played.rc != 0
    message = played.results("rankzero.slurm.job")[-1]["msg"]
    assert re.search(
        r"container.runtime: pyxis is not on this cluster \(srun on \S+ has no --container-image\)\. (It has|No other)"
        r" .*"
        r"Use container.runtime apptainer with a .sif or oci with a .sqsh where the nodes have",
        message,
    )
    assert site.runs() == []
    assert site.jobs() == {}


def test_an_apptainer_that_cannot_be_seen_from_here_is_a_warning_and_the_nodes_decide(site: Site) -> None:
    parts = {name: value for name, value in contained(site).items() if name != "setup"}
    played = site.play(site.job(SHOW, **parts))
    assert played.rc == 0, played.output
    assert "apptainer is not in PATH on" in " ".join(played.output.split())
    outcome = site.outcome(played.launch())
    assert outcome["message"].startswith("neither apptainer nor singularity is in PATH on ")


def evaluation(site: Site, server: dict[str, Any], client: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Two servers, and a client that asks them and decides; each with further keys."""
    for name, text in (("server.py", SERVER), ("client.py", CLIENT)):
        (site.folder / "code" / name).write_text(text, encoding="utf-8")
    told = ["{server.urls}", "{server.hosts}", "{server.nodes}"]
    roles = {
        "server": {"nodes": 2, "command": ["server.py", "{port}", "0"], "ready": {"http": "/health"}, **server},
        "client": {"command": ["client.py", "ask", *told], "after_ready": ["server"], **client},
    }
    artifact = {"path": "result.json", "role": "client", "require": {"answers": {}}}
    job = site.job([], roles=roles, artifact=artifact, **spec)
    del job["command"]
    return job


def test_the_roles_of_a_launch_share_the_image_of_the_job(site: Site) -> None:
    """The image's OWN is for a role that says none, and what a role says of its variables wins over the image's."""
    parts = contained(site)
    image = site.host_path(parts["container"]["image"])
    image.write_text(image.read_text() + "OWN=image\n")
    site.user.give(image)
    launch = site.launch(evaluation(site, {"env": {"OWN": "server"}}, {}, **parts), wait=True)
    run = site.run_dir(launch)
    assert site.outcome(launch)["success"], log_of(run, launch["job_id"])
    result = read_json(run / "work" / "result.json")
    assert {answer["own"] for answer in result["answers"]} == {"server"} and result["own"] == "image"
    assert [answer["rank"] for answer in result["answers"]] == ["0", "1"]
    assert result["told"]["WORLD_SIZE"] == "1"
    # The preflight has looked into it on every node.
    table = (run / "preflight" / "0" / "table").read_text().splitlines()
    assert len([line for line in table if "image=ok mounts=ok apptainer=ok" in line]) == 3
    nothing_left(site, launch)


def test_a_role_in_a_container_beside_one_without(site: Site) -> None:
    parts = contained(site)
    image = site.host_path(parts["container"]["image"])
    image.write_text(image.read_text() + "OWN=image\n")
    site.user.give(image)
    container = parts.pop("container")
    launch = site.launch(evaluation(site, {"container": container}, {}, **parts), wait=True)
    run = site.run_dir(launch)
    assert site.outcome(launch)["success"], log_of(run, launch["job_id"])
    result = read_json(run / "work" / "result.json")
    assert {answer["own"] for answer in result["answers"]} == {"image"} and result["own"] is None
    nothing_left(site, launch)


def test_a_role_whose_container_does_not_start_is_named_with_the_reason(site: Site) -> None:
    parts = contained(site)
    container = {**parts.pop("container"), "image": "/nowhere/serve.sif"}
    launch = site.launch(evaluation(site, {"container": container}, {}, **parts), wait=False)
    outcome, run = site.outcome(launch), site.run_dir(launch)
    assert not outcome["success"] and not (run / "work" / "result.json").exists()
    assert "role server did not start in its container" in outcome["message"], log_of(run, launch["job_id"])
    assert "/nowhere/serve.sif" in outcome["message"]
