# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first hour on a cluster: from the wheel and a script of one's own, through a real sshd, to a proven result."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

from rankzero import errors
from tests.cluster.launching import Site
from tests.cluster.newcomer import PROGRAM, SECONDS, Newcomer, shell_of
from tests.repository import CACHE

WAITS = """\
import os, time
while not os.path.exists("go"):
    time.sleep(0.1)
"""
#: A head without Slurm: its commands cannot be executed there.
WITHOUT_SLURM = (
    'for name in scontrol sinfo squeue sbatch; do mount --bind /dev/null $(command -v $name) || exit 1; done; exec "$@"'
)


def command_in(told: str) -> list[str]:
    """The command that a refusal gives, which the width of the screen may break."""
    (command,) = set(re.findall(r"ssh -o ControlMaster=.*? true\b", " ".join(told.split())))
    return shlex.split(command)


def test_from_a_script_to_a_proven_result(newcomer: Newcomer, site: Site) -> None:
    newcomer.door("cluster", site.lab, shell_of(site))
    first = newcomer.types("rankzero", "init", "--login", "cluster")
    assert first.returncode == errors.OK, first.stdout + first.stderr
    assert "hello" in first.stdout and "Proven" in first.stdout and "nodes 2 (= 2)" in first.stdout, first.stdout
    ran = newcomer.types("rankzero", "run", "jobs/project.yml")
    assert ran.returncode == errors.OK and "Proven" in ran.stdout, ran.stdout + ran.stderr
    assert len(newcomer.typed) <= 3
    listed = json.loads(newcomer.types("rankzero", "ls", "--all", "--json").stdout)["launches"]
    mine = [launch for launch in listed if launch["name"] in ("hello", "project")]
    assert len(mine) == 2 and all(launch["status"]["success"] for launch in mine), listed

    # The same again: no file of his is touched, and hello is the same launch.
    (newcomer.project / "jobs" / "project.yml").write_text("mine", encoding="utf-8")
    before = newcomer.files()
    again = newcomer.types("rankzero", "init", "--login", "cluster")
    assert again.returncode == errors.OK, again.stdout + again.stderr
    assert newcomer.files() == before
    assert again.stdout.count("it was left as it is") == 2 and "has succeeded already" in again.stdout, again.stdout


def test_what_is_wrong_is_said_and_nothing_is_written(newcomer: Newcomer, site: Site, tmp_path: Path) -> None:
    alone, shell = site.on_the_head(), shell_of(site)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    newcomer.door("cluster", site.lab, shell)
    newcomer.door("locked", site.lab, shell, key=tmp_path / "other")
    head = ["unshare", "--mount", "sh", "-c", WITHOUT_SLURM, "sh"]
    newcomer.door("plain", site.lab, [shell[0], *head, *shell[1:]])
    wrong = {
        ("--login", "nowhere.invalid"): (errors.UNREACHABLE, "Could not resolve hostname nowhere.invalid"),
        ("--login", "locked"): (errors.UNREACHABLE, "Permission denied (publickey)"),
        ("--login", "plain"): (errors.REFUSED, "the Slurm command 'scontrol' is not on host"),
        ("--login", "cluster", "--shared", alone): (errors.REFUSED, f"--shared {alone}: the nodes do not see"),
        ("--login", "cluster; true"): (errors.USAGE, "expected HOST or USER@HOST"),
    }
    before = newcomer.files()
    for words, (code, told) in wrong.items():
        done = newcomer.types("rankzero", "init", *words)
        assert done.returncode == code and told in done.stderr, (words, done.stdout + done.stderr)
        assert newcomer.files() == before
    assert not os.listdir(alone), "what the look has made is removed"


def test_a_jump_host_and_a_second_factor(newcomer: Newcomer, site: Site) -> None:
    """Nothing types a code, and nothing hangs: each refusal gives the command that opens the connection that is used,
    and a wait that lost its own ends. The job goes on, and the same command follows it.
    """
    jump = newcomer.door("jump", site.lab, ["/bin/false"])
    door = newcomer.door("cluster", site.lab, shell_of(site), "ProxyJump jump", two_factors=True)
    (newcomer.project / "train.py").write_text(WAITS + PROGRAM, encoding="utf-8")
    before = newcomer.files()
    refused = newcomer.types("rankzero", "init", "--login", "cluster")
    assert refused.returncode == errors.UNREACHABLE and newcomer.files() == before, refused.stderr
    log_in = command_in(refused.stderr)
    newcomer.logs_in(log_in, door)
    made = newcomer.types("rankzero", "init", "--login", "cluster")
    assert made.returncode == errors.OK and "Proven" in made.stdout, made.stdout + made.stderr
    assert "Accepted publickey" in jump.log.read_text() and "keyboard-interactive/pam" in door.log.read_text()

    run = ("rankzero", "run", "jobs/project.yml")
    newcomer.hang_up()
    refused = newcomer.types(*run)
    assert refused.returncode == errors.UNREACHABLE and command_in(refused.stdout + refused.stderr) == log_in
    play = ("ansible-playbook", "-i", "inventory", "rankzero.slurm.train", "-e", "job=jobs/project.yml")
    newcomer.environment["ANSIBLE_COLLECTIONS_PATH"] = str(CACHE / "collections")
    refused = newcomer.types(*play)
    assert refused.returncode and command_in(refused.stdout) == log_in, refused.stdout + refused.stderr
    del newcomer.environment["ANSIBLE_COLLECTIONS_PATH"]

    newcomer.logs_in(log_in, door)
    known = site.jobs("")
    with newcomer.started(*run) as running:
        mine = newcomer.wait_for_launch("project", site)
        newcomer.hang_up()
        told = running.communicate(timeout=SECONDS)[0]
    assert running.returncode and command_in(told) == log_in, told
    assert "not affected" in " ".join(told.split()) and not (mine / "outcome.json").exists(), told
    newcomer.logs_in(log_in, door)
    (mine / "work" / "go").touch()
    again = newcomer.types(*run)
    assert again.returncode == errors.OK and "Proven" in again.stdout, again.stdout + again.stderr
    assert len({*site.jobs("")} - {*known}) == 1, "the same command follows the job"
