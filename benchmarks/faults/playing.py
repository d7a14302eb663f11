# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches by a real ansible-playbook, which a fault kills: alone, or with every process that it has started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from benchmarks.faults.ground import PATIENCE, Broken, Case, Ground

#: Launch, and wait.
TASKS: list[dict[str, Any]] = [
    {"rankzero.slurm.job": {"job": "{{ job }}", "cluster": "{{ launch_cluster }}"}, "register": "launch"},
    {"rankzero.slurm.job_wait": {"run_dir": "{{ launch.run_dir }}"}},
]


def files(
    ground: Ground,
    cases: Sequence[Case],
    *,
    tasks: Sequence[Mapping[str, Any]] = TASKS,
    each: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[Path, Path]:
    """A playbook that launches these cases and waits for them, and an inventory with the lab's head once per case.

    `each`: more variables of a case, by its name. With them, no case waits for another.
    """
    folder = ground.code.parent / f"play-{cases[0].name}"
    folder.mkdir()
    usual = yaml.safe_load(Path(ground.lab.path("inventory.yml")).read_text(encoding="utf-8"))
    (head,) = usual["slurm_login"]["hosts"].values()
    user = profile.become_variables(ground.lab) if ground.become else {}
    cluster = {"state_root": f"{ground.inside}/state", "store_root": f"{ground.inside}/store"}
    # Braces in a program are meant for the shell, not for Jinja.
    more = each or {}
    common = {**head, **user, "launch_cluster": cluster}
    hosts = {case.name: {**common, "job": case.job, **more.get(case.name, {})} for case in cases}
    play = {
        "hosts": "all", "gather_facts": False, "strategy": "free" if more else "linear", "tasks": list(tasks),
        # Its hosts are one cluster, and it is meant to launch on each.
        "vars": {"cluster": "all"},
    }  # fmt: skip
    playbook, inventory = folder / "play.yml", folder / "inventory.json"
    playbook.write_text(json.dumps([play]), encoding="utf-8")
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
    return playbook, inventory


def environment(folder: Path) -> dict[str, str]:
    """The environment of ansible-playbook: nothing of this process's but its Python."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ANSIBLE_CONFIG": str(Path(__file__).resolve().parents[1] / "launch" / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": os.environ["ANSIBLE_COLLECTIONS_PATH"],
    }


def seal(ground: Ground) -> dict[str, str]:
    """Build the sealed environment of the ground's code on the lab, as a user does: a launch by the playbook. Returns
    what a job says of it. Raises Broken.
    """
    wanted = {"mode": "sealed", "project": str(ground.code)}
    case = ground.case("sealed")
    folder = ground.code.parent / f"play-{case.name}"
    folder.mkdir()
    inventory = [Path(ground.lab.path("inventory.yml")), folder / "user.json"]
    user = profile.become_variables(ground.lab) if ground.become else {}
    inventory[1].write_text(json.dumps({"slurm_login": {"vars": user}}), encoding="utf-8")
    (folder / "job.yml").write_text(json.dumps({**case.job, "environment": wanted}), encoding="utf-8")
    cluster = {"state_root": f"{ground.inside}/state", "store_root": f"{ground.inside}/store"}
    options = {"launch_cluster": cluster, "launch_wait": False, "launch_logs_dest": str(folder / "runs")}
    done = subprocess.run(
        [
            "ansible-playbook", *(word for path in inventory for word in ("-i", str(path))),
            "rankzero.slurm.train", "-e", f"job={folder / 'job.yml'}", "-e", json.dumps(options),
        ],
        check=False, env=environment(folder), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    if done.returncode != 0:
        raise Broken(f"the sealed environment was not built:\n{done.stdout[-3000:]}")
    return wanted


def killed(ground: Ground, cases: Sequence[Case], after: float, *, tree: bool) -> bool:
    """Run the playbook and SIGKILL it after `after` seconds. Returns False if it had ended before."""
    playbook, inventory = files(ground, cases)
    log = playbook.with_name("log")
    with log.open("wb") as stream:
        process = subprocess.Popen(
            ["ansible-playbook", "-i", str(inventory), str(playbook)],
            env=environment(playbook.parent),
            cwd=playbook.parent,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(after)
    if process.poll() is not None:
        return False
    for pid in [process.pid, *(descendants(process.pid) if tree else [])]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return True


def finished(ground: Ground, cases: Sequence[Case]) -> str:
    """The complete output of an undisturbed playbook, to check that it works."""
    killed(ground, cases, PATIENCE, tree=True)
    return (ground.code.parent / f"play-{cases[0].name}" / "log").read_text(encoding="utf-8")


def descendants(pid: int) -> list[int]:
    """Every descendant of a process, including those in a lab's namespaces."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                text = Path("/proc", entry, "stat").read_text(encoding="utf-8", errors="replace")
                children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry))
    pids: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        pids += below
        waiting += below
    return pids


def usual_seconds(cases: Sequence[Case], launch: float) -> float:
    """The approximate duration of such a playbook: start, launch, and the longest program."""
    return 3.0 + launch + max(case.seconds for case in cases)


def pause_until(begun: float, seconds: float) -> None:
    time.sleep(max(0.0, begun + seconds - time.monotonic()))
