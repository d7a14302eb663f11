# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks in a container, with a stand-in for apptainer: what reaches them, and what is said where it fails.

The number in a test's name is that of the pitfall in docs/containers.md. enter.sh, rank.sh and the artifact's check are
the same under pyxis.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins import apptainer
from tests.unit.runtime.harness import Job, Site, in_their_places, wait_for

#: What an image and the hooks of its runtime set, and what the ranks must not see of it.
IMAGE_VALUES = {
    "PATH": "/usr/bin:/bin:/image/bin",
    "RANK": "77",
    "LOCAL_RANK": "77",
    "WORLD_SIZE": "77",
    "MASTER_ADDR": "image",
    "MASTER_PORT": "1",
    "OMP_NUM_THREADS": "99",
    "MINE": "of the image",
    "LANG": "image",
    "LD_LIBRARY_PATH": "/image/lib",
}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    apptainer(tmp_path / "bin")
    image(made)
    return made


def image(site: Site, **values: str) -> None:
    lines = [f"{name}={value}\n" for name, value in {**IMAGE_VALUES, **values}.items()]
    (site.root / "torch.sif").write_text("".join(lines), encoding="utf-8")


def job(site: Site, spec: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **how: Any) -> Job:
    given = {
        "setup": {"commands": [f"export PATH={site.root / 'bin'}:$PATH"]},
        "preflight": {"enabled": False},
        "container": {"runtime": "apptainer", "image": str(site.root / "torch.sif"), **(container or {})},
        **(spec or {}),
    }
    return site.job(given, **how)


def test_trap_5_the_rank_has_its_own_place_whatever_image_and_hooks_say(site: Site) -> None:
    made = job(site, {"launcher": {"ranks_per_node": 2}, "resources": {"nodes": 2, "cpus_per_rank": 3}})
    assert made.finish() == 0, made.log()
    in_their_places(made, nodes=2, ranks_per_node=2, threads=3)


def test_trap_10_the_jobs_values_win_over_the_images_and_the_nodes_stay_outside(site: Site) -> None:
    awkward = "line 1\nline 2 'é' \"$HOME\" \\ #"
    commands = [f"export PATH={site.root / 'bin'}:$PATH", "export LD_PRELOAD= PYTHONPATH=/node NAMED='of the node'"]
    made = job(
        site,
        {"env": {"MINE": awkward, "LANG": "C.UTF-8"}, "setup": {"commands": commands}},
        {"env": ["NAMED", "NOT_SET"]},
    )
    image(site, NAMED="of the image")
    assert made.finish() == 0, made.log()
    seen = made.seen()["env"]
    assert (seen["MINE"], seen["LANG"], seen["NAMED"]) == (awkward, "C.UTF-8", "of the node")
    assert not {"LD_PRELOAD", "NOT_SET"} & set(seen)
    # The job's code, and nothing of the node's.
    assert seen["PYTHONPATH"] == str(site.code)
    # What the job says nothing of is the image's.
    assert (seen["PATH"], seen["LD_LIBRARY_PATH"]) == (IMAGE_VALUES["PATH"], "/image/lib")


def test_the_jobs_code_comes_before_a_stale_package_of_the_image(site: Site) -> None:
    (site.code / "src").mkdir()
    made = job(site)
    image(site, PYTHONPATH="/image/editable")
    assert made.finish() == 0, made.log()
    assert made.seen()["env"]["PYTHONPATH"] == f"{site.code}:{site.code}/src:/image/editable"
    # A job that says it itself has the last word.
    made = job(site, {"env": {"PYTHONPATH": "/mine"}})
    assert made.finish(job_id=2) == 0, made.log(2)
    assert made.seen()["env"]["PYTHONPATH"] == "/mine"


@pytest.mark.parametrize("folder", ["/.singularity.d/libs", "/run/rankzero-nvidia"])
def test_the_drivers_libraries_stay_whatever_the_job_sets(site: Site, folder: str) -> None:
    made = job(site, {"env": {"LD_LIBRARY_PATH": "/job/lib"}})
    image(site, LD_LIBRARY_PATH=f"/image/lib:{folder}")
    assert made.finish() == 0, made.log()
    assert made.seen()["env"]["LD_LIBRARY_PATH"] == f"{folder}:/job/lib"


def test_trap_8_home_and_cache_are_writable_folders_of_the_run(site: Site) -> None:
    made = job(site)
    assert made.finish() == 0, made.log()
    seen = made.seen()["env"]
    assert seen["HOME"] == str(made.run / "home")
    assert seen["XDG_CACHE_HOME"] == str(made.run / "home" / ".cache")
    assert (made.run / "home" / ".cache").is_dir()


def test_a_mounted_home_is_home(site: Site) -> None:
    made = job(site, container={"mount_home": True})
    image(site, HOME="/image/home")
    assert made.finish() == 0, made.log()
    assert made.seen()["env"]["HOME"] == str(Path.home())
    assert "XDG_CACHE_HOME" not in made.seen()["env"]


def test_trap_7_the_ranks_work_in_the_run_or_where_the_job_says(site: Site, tmp_path: Path) -> None:
    made = job(site)
    assert made.finish() == 0, made.log()
    assert made.seen()["cwd"] == str(made.run / "work")
    made = job(site, {"command": [sys.executable, str(site.code / "probe.py")]}, {"workdir": str(tmp_path / "bin")})
    assert made.finish(job_id=2) == 0, made.log(2)
    assert made.seen()["cwd"] == str(tmp_path / "bin")


def test_a_relative_program_is_below_the_workdir(site: Site, tmp_path: Path) -> None:
    (tmp_path / "project" / "scripts").mkdir(parents=True)
    (site.code / "probe.py").rename(tmp_path / "project" / "scripts" / "probe.py")
    made = job(site, {"command": ["scripts/probe.py"]}, {"workdir": str(tmp_path / "project")})
    assert made.finish() == 0, made.log()
    assert made.seen()["cwd"] == str(tmp_path / "project")


def test_the_folders_of_the_run_and_the_users_are_bound(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    made = job(site, container={"mounts": [f"{tmp_path}/data:/data:ro"]})
    assert made.finish() == 0, made.log()
    words = (site.root / "torch.sif.words").read_text().splitlines()
    assert [word for word in words if word.startswith("--bind")] == [
        f"--bind={tmp_path}/data:/data:ro",
        *sorted(
            [
                f"--bind={site.code}:{site.code}:ro",
                f"--bind={made.plan.runtime_dir}:{made.plan.runtime_dir}:ro",
                f"--bind={made.run.parent}:{made.run.parent}",
            ],
            key=lambda word: word.split(":")[1].count("/"),
        ),
    ]


def test_torchrun_runs_inside_with_the_environment_of_the_job(site: Site) -> None:
    site.environment()
    made = job(
        site,
        {"launcher": {"kind": "torchrun", "ranks_per_node": 2}, "environment": {"mode": "venv"}},
        environment=True,
    )
    assert made.finish() == 0, made.log()
    seen = made.seen(1)["env"]
    assert (seen["RANK"], seen["WORLD_SIZE"], seen["HOME"]) == ("1", "2", str(made.run / "home"))
    assert seen["PATH"] == f"{Path(made.plan.python).parent}:{IMAGE_VALUES['PATH']}"


def test_an_environment_that_does_not_start_in_the_image_is_said(site: Site) -> None:
    site.environment()
    made = job(site, {"environment": {"mode": "venv"}}, environment=True)
    # It starts on the node, and lacks a library in the image.
    Path(made.plan.python).write_text(f'#!/bin/bash\n[ -z "${{INSIDE:-}}" ] || exit 127\nexec {sys.executable} "$@"\n')
    image(site, INSIDE="1")
    assert made.finish() == 78
    step = (made.run / "logs" / "0" / "step.log").read_text()
    assert f"the environment's Python {made.plan.python} does not start in the container" in step


def test_trap_9_an_image_with_nothing_but_bash_and_the_program_will_do(site: Site) -> None:
    made = job(site, {"command": [sys.executable, str(site.code / "probe.py")]})
    image(site, PATH="/nowhere")
    assert made.finish(SLURMD_NODENAME="node07") == 0, made.log()
    log = (made.run / "logs" / "0" / "rank-0000.log").read_text()
    assert log.startswith("[rankzero] RANK=0 ") and f"host={os.uname().nodename}" in log
    assert "not found" not in log


def test_secrets_need_base64_of_the_image(site: Site) -> None:
    made = job(site, {"command": [sys.executable, str(site.code / "probe.py")]}, secrets={"HIDDEN": "x"})
    assert made.finish() == 0, made.log()
    assert made.seen()["env"]["HIDDEN"] == "x"
    made = job(site, {"command": [sys.executable]}, secrets={"HIDDEN": "x"}, generation=2)
    image(site, PATH="/nowhere")
    assert made.finish(job_id=2) == 78
    assert "the image has no base64, which secrets need" in (made.run / "logs" / "0" / "rank-0000.log").read_text()


def test_a_script_that_is_submitted_by_hand_finds_its_own_generation_inside(site: Site) -> None:
    made = job(site)
    assert made.finish(by_hand=True) == 0, made.log()
    by_hand = made.run.parent / "2"
    assert f'"{by_hand}/work"' in (by_hand / "seen-0.json").read_text()
    # All generations are bound, so that the one which is made in the job is there.
    words = (site.root / "torch.sif.words").read_text().splitlines()
    assert f"--bind={made.run.parent}:{made.run.parent}" in words


def test_trap_3_a_step_that_says_success_without_all_ranks_has_failed(site: Site) -> None:
    real = site.functions["srun"]
    # The plugin did not start on the second node, and srun's exit code does not tell.
    site.functions["srun"] = f'case "$*" in *--ntasks=2*rank.sh*) set -- "${{@/--ntasks=2/--ntasks=1}}" ;; esac; {real}'
    made = job(site, {"resources": {"nodes": 2}})
    assert made.finish(RANKZERO_LOG_LOOKS="1") == 70
    outcome = made.outcome()
    assert not outcome["success"]
    assert outcome["message"].startswith("1 of 2 ranks started, although srun says success")


def test_a_program_that_fails_keeps_its_own_exit_code(site: Site) -> None:
    made = job(site, {"command": [sys.executable, "-c", "raise SystemExit(7)"]})
    assert made.finish() == 7
    assert made.outcome()["message"].startswith("the program ended with exit code 7")


def test_without_the_command_no_rank_starts(site: Site) -> None:
    made = job(site, {"setup": {"commands": ["PATH=/usr/bin:/bin"]}})
    assert made.finish() == 78
    assert made.outcome()["message"].startswith("neither apptainer nor singularity is in PATH on ")
    assert not list((made.run / "logs" / "0").glob("rank-*"))


def test_singularity_will_do(site: Site) -> None:
    (site.root / "bin" / "apptainer").rename(site.root / "bin" / "singularity")
    assert job(site).finish() == 0


def test_the_preflight_names_what_a_node_lacks(site: Site) -> None:
    made = job(site, {"preflight": {}}, {"mounts": ["/nowhere/x:/x"]})
    assert made.finish() == 69
    assert "mount sources missing on this node: /nowhere/x" in made.outcome()["message"]
    (site.root / "torch.sif").unlink()
    made = job(site, {"preflight": {}})
    assert made.finish(job_id=2) == 69
    assert f"the image {site.root}/torch.sif is not here" in made.outcome()["message"]


def test_a_sites_own_settings_of_pyxis_do_not_reach_a_step(site: Site) -> None:
    made = job(site)
    assert made.finish(PYXIS_CONTAINER_IMAGE="x", PYXIS_CONTAINER_NAME="y") == 0, made.log()
    assert not [name for name in made.seen()["env"] if name.startswith("PYXIS_")]


def test_a_batch_script_runs_in_the_image_and_gets_its_signal(site: Site) -> None:
    lines = ["#!/bin/bash", "trap 'echo saved $MINE $# $SLURM_NTASKS $RANK; exit 3' USR1", "touch ready"]
    made = job(
        site,
        {
            "script": "\n".join([*lines, "for i in {1..600}; do sleep 0.1; done", ""]),
            "script_args": ["a b", "c"],
            "checkpoint": {"signal_before_end": 90, "signal": "USR1"},
            "monitor": {"host": 0, "gpu": 0},
        },
    )
    process = made.start(SLURM_NTASKS="16")
    wait_for((made.run / "work" / "ready").exists, process)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=60) == 3, made.log()
    assert (made.run / "logs" / "0" / "rank-0000.log").read_text() == "saved of the image 2 16 77\n"
