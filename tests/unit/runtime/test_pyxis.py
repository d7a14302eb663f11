# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks under pyxis, with a stand-in for srun with pyxis (tests/stand_ins.py says what it keeps of the real one).

The number in a test's name is that of the pitfall in docs/containers.md. tests/cluster/test_launch_pyxis.py uses a real
pyxis.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins import PYXIS_SRUN, command, squashfs
from tests.unit.runtime.harness import Job, Site, in_their_places, wait_for

#: What an image that NVIDIA's hooks know sets.
IMAGE = {"PATH": "/usr/bin:/bin", "PYTORCH_VERSION": "2.9", "MINE": "of the image", "LD_LIBRARY_PATH": "/image/lib"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    # The run itself hides nothing here, but what a user writes may not lie where enroot puts a file system of its own.
    stand_in = command(tmp_path / "bin", "srun", PYXIS_SRUN)
    real = shlex.join([sys.executable, "-I", str(made.tools / "srun.py")])
    made.functions["srun"] = f'PYXIS_STAND_IN_SRUN={shlex.quote(real)} exec {stand_in} "$@"'
    image(made)
    return made


def image(site: Site, **values: str) -> None:
    squashfs(site.root / "torch.sqsh", {**IMAGE, **values})


@pytest.fixture(autouse=True)
def outside_of_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests live in /tmp, which a job under pyxis may not (trap 14, in tests/unit/plan/test_container.py)."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.plan import container

    monkeypatch.setattr(container, "HIDDEN", "/nowhere")


def job(site: Site, spec: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **how: Any) -> Job:
    given = {
        "preflight": {"enabled": False},
        "container": {"runtime": "pyxis", "image": str(site.root / "torch.sqsh"), **(container or {})},
        **(spec or {}),
    }
    return site.job(given, **how)


def test_trap_5_hooks_do_not_decide_who_a_rank_is(site: Site) -> None:
    made = job(site, {"launcher": {"ranks_per_node": 2}, "resources": {"nodes": 2, "cpus_per_rank": 3}})
    assert made.finish() == 0, made.log()
    in_their_places(made, nodes=2, ranks_per_node=2, threads=3)


def test_traps_7_8_and_9_place_home_and_no_slurm_inside(site: Site) -> None:
    made = job(site)
    assert made.finish(SLURMD_NODENAME="node07") == 0, made.log()
    seen = made.seen()
    assert (seen["cwd"], seen["env"]["HOME"]) == (str(made.run / "work"), str(made.run / "home"))
    assert not [name for name in seen["env"] if name.startswith("BASH_FUNC_")]
    assert "not found" not in (made.run / "logs" / "0" / "rank-0000.log").read_text()


def test_trap_10_the_jobs_values_win_and_the_nodes_stay_outside(site: Site) -> None:
    commands = ["export LD_PRELOAD= PYTHONPATH=/node NAMED='of the node'"]
    made = job(
        site, {"env": {"MINE": "of\nthe job", "LANG": "C.UTF-8"}, "setup": {"commands": commands}}, {"env": ["NAMED"]}
    )
    image(site, NAMED="of the image")
    assert made.finish() == 0, made.log()
    seen = made.seen()["env"]
    assert (seen["MINE"], seen["LANG"], seen["NAMED"]) == ("of\nthe job", "C.UTF-8", "of the node")
    assert (seen["LD_LIBRARY_PATH"], seen["PYTHONPATH"]) == ("/image/lib", str(site.code))
    assert "LD_PRELOAD" not in seen


@pytest.mark.parametrize("image_text", [None, "", "FROM x\n"])
def test_what_pyxis_says_of_an_image_is_in_the_verdict(site: Site, image_text: str | None) -> None:
    path = site.root / "torch.sqsh"
    made = job(site)
    path.unlink()
    if image_text is not None:
        path.write_text(image_text)
    assert made.finish() != 0
    said = "No such file or directory" if image_text is None else "Invalid image format"
    message = made.outcome()["message"]
    assert re.match(
        rf"no rank started in its container: slurmstepd-node: error: pyxis:  +\[ERROR\] {said}: {path}$", message
    )
    # Each node says the same before, where it is asked.
    made = job(site, {"preflight": {}}, generation=2)
    assert made.finish(job_id=2) == 69
    assert f"the image {path} is n" in made.outcome()["message"]


#: As a real one said it (0.24, enroot 4.1), the nodes' lines in the order in which they came.
NO_ROOM = """\
slurmstepd-n1: error: pyxis: child 310 failed with error code: 1
slurmstepd-n2: error: pyxis: failed to create container filesystem for image: /i.sqsh
slurmstepd-n2: error: pyxis: printing enroot log file:
slurmstepd-n2: error: pyxis:     [INFO] Extracting squashfs filesystem...
slurmstepd-n2: error: pyxis:     mkdir: cannot create directory '/run/enroot': Permission denied
slurmstepd-n1: error: pyxis: container was not started successfully by another task
"""
NO_MOUNT = """\
slurmstepd-n1: error: pyxis: container start failed with error code: 1
slurmstepd-n1: error: pyxis: printing enroot log file:
slurmstepd-n1: error: pyxis:     /usr/bin/enroot: line 44: HOME: unbound variable
slurmstepd-n1: error: pyxis:     [ERROR] No such file or directory: /tmp/enroot-data/pyxis_10.0
"""
NO_WORD = "srun: error\nslurmstepd-n1: error: pyxis: child 310 failed with error code: 1\n"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (NO_ROOM, "n2: error: pyxis:     mkdir: cannot create directory '/run/enroot': Permission denied"),
        (NO_MOUNT, "n1: error: pyxis:     [ERROR] No such file or directory: /tmp/enroot-data/pyxis_10.0"),
        (NO_WORD, "n1: error: pyxis: child 310 failed with error code: 1"),
    ],
)
def test_the_verdict_quotes_the_line_that_has_the_reason(site: Site, log: str, said: str) -> None:
    (site.root / "said").write_text(log)
    find = 'for word; do case $word in --output=*) log=${word#*=} ;; esac; done; mkdir -p "${log%/*}"'
    site.functions["srun"] = f'{find}; cat {site.root}/said >> "$log"; return 1'
    made = job(site)
    assert made.finish() == 1
    assert made.outcome()["message"] == f"no rank started in its container: slurmstepd-{said}"


def test_a_mount_and_a_folder_that_are_missing_are_in_the_verdict(site: Site) -> None:
    made = job(site, container={"mounts": ["/nowhere/data:/data"]})
    assert made.finish() != 0
    assert made.outcome()["message"].endswith("pyxis: --container-mounts: source path does not exist: /nowhere/data")
    made = job(site, {"command": ["/x"]}, {"workdir": "/nowhere/work"}, generation=2)
    assert made.finish(job_id=2) != 0
    assert made.outcome()["message"].endswith("pyxis: couldn't chdir to /nowhere/work: No such file or directory")


def test_trap_3_an_exit_code_of_0_without_all_ranks_is_a_failure(site: Site) -> None:
    real = site.functions["srun"]
    site.functions["srun"] = f'case "$*" in *--ntasks=2*rank.sh*) set -- "${{@/--ntasks=2/--ntasks=1}}" ;; esac; {real}'
    made = job(site, {"resources": {"nodes": 2}})
    assert made.finish(RANKZERO_LOG_LOOKS="1") == 70
    assert made.outcome()["message"].startswith("1 of 2 ranks started, although srun says success")


def test_trap_11_an_image_that_used_up_the_memory_is_said(site: Site) -> None:
    log = 'for word; do case $word in --output=*) log=${word#*=} ;; esac; done; mkdir -p "${log%/*}"'
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed."
    site.functions["srun"] = f'{log}; echo "{killed}" >> "$log"; return 1'
    made = job(site)
    assert made.finish() == 1
    message = made.outcome()["message"]
    assert "no rank started in its container: slurmstepd: error: Detected 1 oom_kill event" in message
    assert message.endswith(
        "an image that is unpacked into memory counts against the step's: ask for more in resources.memory"
    )


def test_trap_2_at_the_level_of_the_job_the_script_is_on_the_node_and_clean(site: Site) -> None:
    made = job(site, container={"level": "job"})
    assert made.finish(OF_THE_LOGIN="1", CUDA_VISIBLE_DEVICES="0") == 0, made.log()
    seen = made.seen()["env"]
    assert "OF_THE_LOGIN" not in seen and seen["CUDA_VISIBLE_DEVICES"] == "0"
    # A site whose pyxis puts the batch script into the image all the same: there is no Slurm.
    made = job(site, container={"level": "job"}, generation=2)
    text = (made.run / "job.sbatch").read_text()
    inside = text.replace("/usr/local/bin:/usr/bin:/bin:", "/nowhere:").replace("command -v srun", "true")
    (made.run / "job.sbatch").write_text(inside)
    site.functions.clear()
    assert made.finish(job_id=2) == 78
    assert "the batch script itself is in the image" in made.log(2) and "set container.level to step" in made.log(2)


def test_a_sites_own_settings_do_not_reach_a_step(site: Site) -> None:
    made = job(site, {"preflight": {}})
    found = {
        "PYXIS_CONTAINER_IMAGE": "/nowhere.sqsh",
        "_SLURM_SPANK_OPTION_pyxis_container_image": "x",
        "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image": "x",
    }
    assert made.finish(**found) == 0, made.log()
    assert not [name for name in made.seen()["env"] if "pyxis" in name.lower() and "STAND_IN" not in name]


def test_every_trap_has_a_test_that_names_it() -> None:
    """The table in docs/containers.md, and tests by these numbers, are whole."""
    tests = Path(__file__).parents[1]
    names = "\n".join(path.read_text() for path in tests.rglob("test_*.py"))
    found = set()
    for listed in re.findall(r"^def test_traps?_([0-9_and]+)", names, re.MULTILINE):
        found |= {int(number) for number in re.findall("[0-9]+", listed)}
    assert found == set(range(1, 15))
    table = (Path(__file__).parents[3] / "docs" / "containers.md").read_text()
    assert {int(number) for number in re.findall(r"^\| ([0-9]+) \|", table, re.MULTILINE)} == found


#: Of the batch step, not of the one that holds the container.
BATCH = {"SLURM_NTASKS": "16", "SLURM_CPUS_ON_NODE": "8", "SLURM_GPUS": "16", "SLURM_NNODES": "2"}
SEES = """import json, os, sys
with open(os.path.join(os.environ["RANKZERO_RUN_DIR"], "seen.json"), "w") as stream:
    json.dump({"cwd": os.getcwd(), "words": sys.argv[1:], "env": dict(os.environ)}, stream)
"""


def batch_script(site: Site, *lines: str, container: dict[str, Any] | None = None, **spec: Any) -> Job:
    # A login profile of the machine may have set another PATH.
    known = {"setup": {"commands": [f"export PATH={site.stand_ins}:$PATH"]}, "monitor": {"host": 0, "gpu": 0}}
    return job(site, {"script": "\n".join(["#!/bin/bash", *lines, ""]), **known, **spec}, container)


def test_a_batch_script_in_an_image_sees_its_job_and_hands_the_image_on(site: Site) -> None:
    (site.code / "sees.py").write_text(SEES, encoding="utf-8")
    made = batch_script(
        site,
        'echo "in $MINE, $ASKED"; echo wrong >&2',
        f'{shlex.quote(sys.executable)} sees.py "$@"; exit 5',
        script_args=["a b", "--", "c"],
        env={"ASKED": "yes"},
    )
    assert made.finish(SLURMD_NODENAME="node07", **BATCH) == 5, made.log()
    log = made.run / "logs" / "0" / "rank-0000.log"
    assert log.read_text(encoding="utf-8") == "in of the image, yes\nwrong\n", made.log()
    seen = json.loads((made.run / "seen.json").read_text(encoding="utf-8"))
    env = seen["env"]
    assert (seen["cwd"], seen["words"]) == (str(made.run / "work"), ["a b", "--", "c"])
    assert {name: env.get(name) for name in BATCH} == BATCH
    assert "SLURM_STEP_ID" not in env and env["SLURM_SUBMIT_DIR"] == str(made.run / "work")
    assert env["_SLURM_SPANK_OPTION_pyxis_container_image"] == str(site.root / "torch.sqsh")
    assert str(made.run.parent) in env["_SLURM_SPANK_OPTION_pyxis_container_mounts"]
    assert str(site.code) not in env.get("PYTHONPATH", ""), "a script says itself where its code is"
    step = json.loads((site.root / "torch.sqsh.words").read_text(encoding="utf-8"))
    assert {"--overlap", "--nodes=1", "--ntasks=1", "--nodelist=node07", "--cpus-per-task=8"} <= set(step["own"])
    assert made.outcome()["exit_code"] == 5


def test_a_batch_script_in_an_image_works_in_the_folder_that_it_names(site: Site, tmp_path: Path) -> None:
    place = tmp_path / "gpt"
    (place / "sub").mkdir(parents=True)
    made = batch_script(
        site,
        'echo "$PWD|$SLURM_SUBMIT_DIR"',
        container={"workdir": str(place / "sub")},
        code={"in_place": str(place)},
    )
    assert made.finish() == 0, made.log()
    assert (made.run / "logs" / "0" / "rank-0000.log").read_text() == f"{place}/sub|{place}\n"
    flags = json.loads((site.root / "torch.sqsh.words").read_text(encoding="utf-8"))["flags"]
    assert f"{place}:{place}" in flags["mounts"].split(",")
    assert flags["workdir"] == str(place / "sub")


def test_a_signal_reaches_a_batch_script_in_an_image_and_not_its_step(site: Site) -> None:
    made = batch_script(
        site,
        "trap 'echo saved; exit 0' USR1",
        "touch ready; for i in {1..600}; do sleep 0.1; done; exit 1",
        checkpoint={"signal_before_end": 90, "signal": "USR1"},
    )
    process = made.start()
    wait_for((made.run / "work" / "ready").exists, process)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=60) == 0, made.log()
    assert (made.run / "logs" / "0" / "rank-0000.log").read_text() == "saved\n"


def test_an_image_that_is_no_image_is_in_the_verdict_of_a_batch_script(site: Site) -> None:
    (site.root / "torch.sqsh").write_text("no squashfs")
    made = batch_script(site, "true")
    assert made.finish() != 0
    assert made.outcome()["message"].startswith("the script did not start in its container")
    assert "Invalid image format" in made.outcome()["message"]
