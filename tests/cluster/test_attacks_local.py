# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an attacker plants where a node, or a folder that many may write, lets anybody make a name: in /tmp, in a place
for copies, beside a lock, in a folder of checkpoints. Nothing of it is run, followed, believed, or waited for.
"""

from __future__ import annotations

import json
import subprocess
import zlib
from typing import Any

import pytest

from tests.cluster.attack import ATTACKER, VICTIM, AttackLab
from tests.repository import COLLECTION

#: What a batch script and its steps start by name, whatever they are for.
USUAL = ("python", "python3", "env", "srun", "scontrol", "tee", "sed", "mkdir", "rm", "cat", "date", "uname", "timeout")
NODES = ("node01", "node02", "node03")
JOB_ID = "4711"


def made_by_victim(attack_lab: AttackLab, name: str) -> str:
    """A private folder of the victim's with one file in it."""
    folder = f"{attack_lab.home_of(VICTIM)}/{name}"
    attack_lab.write_as(VICTIM, f"{folder}/precious", "as it was", mode=0o600)
    attack_lab.as_victim(["chmod", "755", folder])
    return folder


def untouched(attack_lab: AttackLab, folder: str) -> bool:
    found = attack_lab.as_victim(["sh", "-c", 'ls -A "$1"; cat "$1/precious"; stat -c %a "$1"', "sh", folder]).stdout
    return found == "precious\nas it was755\n"


def view_of(job_id: str, run_dir: str) -> str:
    """The name of a run's folder in /tmp: anybody who sees the job in the queue can say it."""
    return f"/tmp/rankzero-{VICTIM.uid}-{job_id}-{zlib.crc32(run_dir.encode()):08x}"


def python_as_victim(attack_lab: AttackLab, runtime: str, code: str, *argv: str, **environ: str) -> str:
    """Run a program of the runtime, or of the library, as the victim on a node; what it said."""
    given = {
        "PYTHONPATH": f"{runtime}/runtime:{runtime}/library",
        "SLURM_JOB_ID": JOB_ID,
        "SLURM_JOB_NAME": "victims",
        "RANKZERO_RUN_DIR": f"{runtime}/run",
        "RANKZERO_GENERATION": "1",
        "RANKZERO_ATTEMPT": "0",
        **environ,
    }
    words = ["env", *(f"{name}={value}" for name, value in given.items()), "python3", "-B", "-c", code, *argv]
    done = attack_lab.as_victim(words, node=NODES[0], check=False, timeout=30)
    return done.stdout + done.stderr


def test_a_squatted_view_is_neither_run_nor_followed(attack_lab: AttackLab) -> None:
    """On three nodes: a folder with programs of every name that a job starts, a link into the victim's home, a pipe."""
    canary, private = attack_lab.canary(), made_by_victim(attack_lab, "private")
    environment = f"{attack_lab.home_of(VICTIM)}/environment"
    attack_lab.as_victim(["mkdir", "-p", f"{environment}/bin"])
    attack_lab.as_victim(["ln", "-s", "/usr/bin/python3", f"{environment}/bin/python"])
    options: dict[str, Any] = {"nodelist": ",".join(NODES), "hold": True}
    launch = attack_lab.launch_as(
        VICTIM,
        attack_lab.job(
            "true",
            resources={"nodes": 3, "time": "00:10:00", "sbatch": options},
            environment={"mode": "path", "path": environment},
            preflight={"stage": "always"},
        ),
    )
    view = view_of(launch["job_id"], launch["run_dir"])
    for name in USUAL:
        path = f"{view}/environment/bin/{name}"
        attack_lab.write_as(ATTACKER, path, f"#!/bin/sh\n{canary.command}\n", mode=0o755, node=NODES[0])
    attack_lab.as_attacker(["ln", "-s", private, view], node=NODES[1])
    attack_lab.as_attacker(["mkfifo", "-m", "666", view], node=NODES[2])
    attack_lab.as_root(["scontrol", "release", launch["job_id"]])
    outcome = attack_lab.outcome_of(launch)
    assert not outcome["success"]
    assert canary.owners() == []
    assert untouched(attack_lab, private)
    for kind in ("a folder", "a link", "a special file"):
        assert f"{view} is {kind} of attacker" in outcome["message"], outcome["message"]


def test_a_planted_leftover_is_left_alone(attack_lab: AttackLab) -> None:
    """A folder of the victim's name in /tmp whose lock leads to a file of hers, and its tree to a folder of hers."""
    private = made_by_victim(attack_lab, "private")
    left = f"/tmp/rankzero-{VICTIM.uid}-7-00000000"
    plant = f"""mkdir -p {left}/copy && ln -s {private}/made-by-the-lock {left}/lock
        ln -s {private} {left}/copy/tree; chmod 777 {left} {left}/copy; touch -h -d @1000000000 {left}"""
    attack_lab.as_attacker(["sh", "-c", plant], node=NODES[0])
    resources = {"nodes": 1, "time": "00:10:00", "sbatch": {"nodelist": NODES[0]}}
    launch = attack_lab.launch_as(VICTIM, attack_lab.job("true", resources=resources))
    assert attack_lab.outcome_of(launch)["success"], "it is no reason for a job to fail"
    assert untouched(attack_lab, private)
    assert attack_lab.as_attacker(["ls", left], node=NODES[0]).stdout == "copy\nlock\n"
    assert attack_lab.as_root(["stat", "-c", "%U", f"{left}/copy"], node=NODES[0]).stdout == "attacker\n"


@pytest.mark.parametrize(
    ("owner", "mode", "said"), [("root", "777", "no sticky bit"), ("attacker", "1777", "belongs to attacker")]
)
def test_a_place_where_folders_can_be_replaced_takes_no_copy(
    attack_lab: AttackLab, runtime: str, owner: str, mode: str, said: str
) -> None:
    """The attacker would put a folder with her own code in the place of the victim's."""
    place = f"/tmp/scratch-{attack_lab.token}"
    attack_lab.as_root(["sh", "-c", f"mkdir {place}; chown {owner} {place}; chmod {mode} {place}"], node=NODES[0])
    tried = "import sys; from node import disk\ntry: print('in', {})\nexcept disk.Trouble as error: print(error)"
    code = tried.format("disk.Home(sys.argv[1]).path")
    found = python_as_victim(attack_lab, runtime, code, place)
    assert said in found, found
    assert attack_lab.as_root(["ls", place], node=NODES[0]).stdout == ""
    choose = tried.format("disk.choose(sys.argv[1:], 1, 1, 0)")
    assert said in python_as_victim(attack_lab, runtime, choose, place)


def test_a_stale_lock_that_names_a_path_deletes_nothing(attack_lab: AttackLab, runtime: str) -> None:
    private, shared = made_by_victim(attack_lab, "private"), attack_lab.shared_folder()
    lock = f"{shared}/one.lock"
    climb = "../" * (shared.count("/") + 1)
    content = {"place": "elsewhere", "pid": 1, "host": "other", "own": f"{lock}./{climb}{private[1:]}/precious"}
    attack_lab.write_as(ATTACKER, lock, json.dumps(content))
    attack_lab.as_attacker(["sh", "-c", f"mkdir {lock}. && touch -d @1000000000 {lock}"])
    code = f"import sys; from {COLLECTION}.plugins.module_utils.store import locks\n"
    code += "with locks.hold(sys.argv[1], 1): print('held')"
    found = python_as_victim(attack_lab, runtime, code, lock)
    assert "is held by process 1 on other" in found, found
    assert untouched(attack_lab, private)


def test_owners_of_checkpoints_that_lead_elsewhere(attack_lab: AttackLab, runtime: str) -> None:
    """A folder that a group shares: for what says who owns it a link into the victim's home, and a pipe."""
    private = made_by_victim(attack_lab, "private")
    take = "import runpy, sys; sys.argv[1:] = ['take', sys.argv[1]]; import time; time.sleep = lambda seconds: None\n"
    take += "import itertools; clock = itertools.count(0, 7); time.monotonic = lambda: next(clock)\n"
    take += f"runpy.run_path('{runtime}/runtime/owner.py', run_name='__main__')"
    linked, piped = (attack_lab.shared_folder(0o2775, "project") for _turn in range(2))
    attack_lab.as_attacker(["ln", "-s", private, f"{linked}/.rankzero"])
    assert "cannot be taken" in python_as_victim(attack_lab, runtime, take, linked)
    assert untouched(attack_lab, private)
    attack_lab.as_attacker(["sh", "-c", f"umask 0; mkdir {piped}/.rankzero && mkfifo {piped}/.rankzero/owner.1"])
    assert f"remove {piped}/.rankzero/owner.1" in python_as_victim(attack_lab, runtime, take, piped)


@pytest.mark.parametrize("way", ["a file of the attacker's", "a link to a file of the victim's", "a pipe"])
def test_planted_secrets_are_not_read(attack_lab: AttackLab, runtime: str, way: str) -> None:
    """In a run directory that a group may write: values that would have the victim start the attacker's programs."""
    canary, run = attack_lab.canary(), attack_lab.shared_folder(0o2775, "project")
    programs = attack_lab.shared_folder()
    attack_lab.write_as(ATTACKER, f"{programs}/program", f"#!/bin/sh\n{canary.command}\n", mode=0o755)
    path = subprocess.run(
        ["base64", "-w0"], input=f"{programs}:/usr/bin:/bin".encode(), capture_output=True, check=True
    )
    line = f"PATH={path.stdout.decode()}\n"
    if way == "a pipe":
        attack_lab.as_attacker(["mkfifo", "-m", "666", f"{run}/secrets.env"])
    elif way.startswith("a file"):
        attack_lab.write_as(ATTACKER, f"{run}/secrets.env", line, mode=0o644)
    else:
        attack_lab.write_as(VICTIM, f"{attack_lab.home_of(VICTIM)}/notes", line, mode=0o600)
        attack_lab.as_attacker(["ln", "-s", f"{attack_lab.home_of(VICTIM)}/notes", f"{run}/secrets.env"])
    attack_lab.as_victim(["mkdir", "-p", f"{run}/logs", f"{run}/work"])
    given = {
        "RANKZERO_RUN_DIR": run,
        "RANKZERO_LOGS": f"{run}/logs",
        "RANKZERO_RUNTIME": f"{runtime}/runtime",
        "RANKZERO_SECRETS": "PATH",
        "RANKZERO_ATTEMPT": "0",
        "RANKZERO_INTERFACE": "lo",
        "RANKZERO_LAUNCHER": "torchrun",
        "RANK": "0",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": "0",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "1",
    }
    words = [
        "env",
        *(f"{name}={value}" for name, value in given.items()),
        "bash",
        f"{runtime}/runtime/rank/rank.sh",
        "program",
    ]
    done = attack_lab.as_victim(words, node=NODES[0], check=False, timeout=30)
    assert canary.owners() == []
    assert done.returncode == 78, attack_lab.as_victim(["cat", f"{run}/logs/rank-0000.log"], check=False).stdout
