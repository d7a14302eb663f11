# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an attacker does on a node where root's or the victim's ranks run: processes that look like ranks, with files
that look like those of a rank.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from tests.cluster.attack import ATTACKER, ROOT, VICTIM, AttackLab, User

NODE = "node01"
RUN = "/state/runs/gpt/0123456789abcdef/1"
#: In namespaces of her own, the attacker gives the file of another user the name that the file in memory of a rank has,
#: handles the signal, and waits for the sampler.
FALSE_FILE = r"""
import ctypes, os, signal, sys
victim, prefix, place = sys.argv[1:]
libc, number, user, group = ctypes.CDLL(None, use_errno=True), os.getpid(), os.getuid(), os.getgid()
def call(name, *words):
    if getattr(libc, name)(*words):
        raise OSError(ctypes.get_errno(), name)
signal.signal(43, lambda *_: None)
call("unshare", 0x10000000 | 0x00020000)
for name, text in (("setgroups", "deny"), ("gid_map", f"0 {group} 1"), ("uid_map", f"0 {user} 1")):
    with open(f"/proc/self/{name}", "w") as stream:
        stream.write(text)
call("mount", b"none", b"/", None, 0x4000 | 0x40000, None)
call("mount", b"none", place.encode(), b"tmpfs", 0, None)
name = f"memfd:{prefix}-{number}" if prefix.endswith("-0") else f"memfd:{prefix}-{number}-0"
open(f"{place}/{name}", "w").close()
call("mount", victim.encode(), f"{place}/{name}".encode(), None, 0x1000, None)
os.chdir(place)
os.mkdir("old")
if libc.syscall(155, b".", b"old"):  # pivot_root
    raise OSError(ctypes.get_errno(), "pivot_root")
taken = os.open(f"/{name}", os.O_RDONLY)
print(os.readlink(f"/old/proc/self/fd/{taken}"), flush=True)
sys.stdin.read()
"""
LOOK = (
    "import json; from rank import stacks; print(json.dumps("
    f"stacks.sample_processes({{'RANKZERO_RUN_DIR={RUN}', 'RANKZERO_ATTEMPT=0'}})))"
)


@pytest.fixture
def precious(attack_lab: AttackLab) -> str:
    """A file of root's that everybody may read."""
    return attack_lab.write_as(ROOT, f"{attack_lab.shared_folder(0o755)}/precious", "as it was\n")


def started_by_attacker(attack_lab: AttackLab, words: list[str]) -> subprocess.Popen[str]:
    """A process of the attacker's on the node, with the variables of a rank; it ends with its standard input."""
    variables = [f"RANKZERO_RUN_DIR={RUN}", "RANKZERO_ATTEMPT=0", "RANK=0"]
    user = [f"--reuid={ATTACKER.uid}", f"--regid={ATTACKER.uid}", "--clear-groups"]
    command = [str(attack_lab.lab.dir / "bin" / "node"), NODE, "setpriv", *user, "env", *variables, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def looked_at(attack_lab: AttackLab, runtime: str, user: User) -> list[dict[str, Any]]:
    """What the sampler of a user's job sees on the node."""
    words = ["env", f"PYTHONPATH={runtime}/runtime", "python3", "-B", "-c", LOOK]
    rows: list[dict[str, Any]] = json.loads(attack_lab.run_as(user, words, node=NODE).stdout)
    return rows


@pytest.mark.parametrize("prefix", ["rankzero-stacks-0", "rankzero-trace"])
def test_a_false_file_in_memory_is_not_emptied(attack_lab: AttackLab, runtime: str, precious: str, prefix: str) -> None:
    """Root's sampler meets a process that says it is a rank of root's, and offers a file of root's for its stacks."""
    place = attack_lab.as_attacker(["mktemp", "-d"], node=NODE).stdout.strip()
    attacker = started_by_attacker(attack_lab, ["python3", "-c", FALSE_FILE, precious, prefix, place])
    try:
        assert attacker.stdout is not None and attacker.stderr is not None
        name = attacker.stdout.readline()
        assert name.startswith(f"/memfd:{prefix}-"), attacker.stderr.read()
        for user in (ROOT, VICTIM):
            assert looked_at(attack_lab, runtime, user) == []
        assert attacker.poll() is None
        assert attack_lab.as_root(["cat", precious]).stdout == "as it was\n"
    finally:
        attacker.communicate(input="")


def test_a_copied_environment_makes_no_rank(attack_lab: AttackLab, runtime: str) -> None:
    """A queue of false ranks on the node changes nothing in what is said of the job, and none gets a signal."""
    attacker = started_by_attacker(attack_lab, ["sh", "-c", "echo ready; cat"])
    try:
        assert attacker.stdout is not None and attacker.stdout.readline() == "ready\n"
        assert looked_at(attack_lab, runtime, ROOT) == []
        assert attacker.poll() is None
    finally:
        attacker.communicate(input="")


def test_what_is_copied_of_the_variables_does_not_hold_a_job(attack_lab: AttackLab, runtime: str) -> None:
    """A step that holds something on a node waits for the ranks of its own job, and not for who only says so."""
    attacker = started_by_attacker(attack_lab, ["env", "SLURM_JOB_ID=7", "SLURM_STEP_ID=9", "sh", "-c", "echo ok; cat"])
    code = "from node import job_end; print(job_end.ranks_alive())"
    variables = [f"PYTHONPATH={runtime}/runtime", "SLURM_JOB_ID=7", "SLURM_STEP_ID=1", f"RANKZERO_RUN_DIR={RUN}"]
    try:
        assert attacker.stdout is not None and attacker.stdout.readline() == "ok\n"
        said = attack_lab.as_root(["env", *variables, "python3", "-B", "-c", code], node=NODE).stdout
        assert said == "False\n"
    finally:
        attacker.communicate(input="")


def test_a_node_that_was_lost_does_not_seem_to_hold_anything_by_a_strangers_word(
    attack_lab: AttackLab, runtime: str
) -> None:
    """Root's job asks a node that has started again: a process of the attacker's says that it holds something there."""
    variables = ["SLURM_JOB_ID=7", "RANKZERO_HOLDS=1"]
    code = "from core import lost; print(lost.ANSWER_IF_HELD)"
    words = ["env", f"PYTHONPATH={runtime}/runtime", "python3", "-B", "-c", code]
    program = attack_lab.run_as(ROOT, words, node=NODE).stdout.strip()

    def answers() -> list[str]:
        folder = attack_lab.as_root(["mktemp", "-d"], node=NODE).stdout.strip()
        asks = ["env", "SLURM_JOB_ID=7", f"SLURMD_NODENAME={NODE}", "bash", "-c", program, "alive", folder]
        attack_lab.as_root(asks, node=NODE)
        return attack_lab.as_root(["ls", folder], node=NODE).stdout.split()

    attacker = started_by_attacker(attack_lab, ["env", *variables, "sh", "-c", "echo ready; cat"])
    try:
        assert attacker.stdout is not None and attacker.stdout.readline() == "ready\n"
        assert answers() == []
        holds = [str(attack_lab.lab.dir / "bin" / "node"), NODE, "env", *variables, "sh", "-c", "echo ready; cat"]
        with subprocess.Popen(holds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as own:
            assert own.stdout is not None and own.stdout.readline() == "ready\n"
            up, node = answers()
            assert (float(up) > 0, node) == (True, NODE)
            own.communicate(input="")
    finally:
        attacker.communicate(input="")


def jobs_of_the_victim(attack_lab: AttackLab) -> set[str]:
    """The jobs of the victim that Slurm knows, also those of other tests on the same lab."""
    listed = attack_lab.as_root(["squeue", "--noheader", "--states=all", "--format=%i %u"]).stdout.splitlines()
    return {line.split()[0] for line in listed if line.endswith(VICTIM.name)}


def test_a_strangers_queue_and_the_login_environment_steer_no_launch(attack_lab: AttackLab) -> None:
    """Jobs of the attacker's have the name that the victim's next job gets, and the victim's shell has variables for
    every command of Slurm: one job runs, the victim's own, with its own name and log.
    """
    job = attack_lab.job("echo the program ran")
    before = jobs_of_the_victim(attack_lab)
    first = attack_lab.launch_as(VICTIM, job)
    assert attack_lab.outcome_of(first)["success"]
    name = attack_lab.as_root(["scontrol", "--oneliner", "show", "job", first["job_id"]]).stdout
    name = name.partition("JobName=")[2].split()[0]
    names = {name, re.sub(r"1(\D*)$", r"2\1", name)}
    stranger = ["sbatch", "--hold", "--comment=\x1b[31mrankzero", "--output=/dev/null", "--wrap=sleep 600"]
    planted = [attack_lab.as_attacker([*stranger, "--parsable", f"--job-name={each}"]).stdout.strip() for each in names]
    misleading = {
        "SBATCH_JOB_NAME": "other", "SBATCH_OUTPUT": "/tmp/elsewhere", "SBATCH_WAIT": "1", "SBATCH_ARRAY_INX": "0-9",
        "SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "COMPLETED", "SLURM_TIME_FORMAT": "%c", "SLURM_CLUSTERS": "nowhere",
        "BASH_ENV": "/nonexistent", "SACCT_FORMAT": "User",
    }  # fmt: skip
    second = attack_lab.launch_as(VICTIM, job, env=misleading, launch_relaunch="always")
    assert second["job_id"] not in (first["job_id"], *planted) and second["run_dir"] != first["run_dir"]
    assert attack_lab.outcome_of(second)["success"]
    log = attack_lab.as_victim(["cat", f"{second['run_dir']}/logs/0/rank-0000.log"]).stdout
    assert log.count("the program ran") == 1
    assert jobs_of_the_victim(attack_lab) - before <= {first["job_id"], second["job_id"]}
    attack_lab.as_attacker(["scancel", *planted])
