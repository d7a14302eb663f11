# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping, Sequence

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    SlurmError,
    SlurmMissing,
    SlurmUnavailable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import (
    CommandResult,
    Slurm,
    run_command,
    scrubbed,
)
from tests.unit.slurm.recorded import NO_CONTROLLER, NO_DATABASE, FakeSlurm, said


def test_the_submitters_own_settings_reach_no_command() -> None:
    environment = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_JWT": "token",
        "SLURM_SACK_SOCKET": "/run/sack",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SLURM_JOB_ID": "7",
        "SLURM_CLUSTERS": "other",
        "SBATCH_PARTITION": "debug",
        "SRUN_CPUS_PER_TASK": "4",
        "SQUEUE_FORMAT": "%i",
        "SACCT_FORMAT": "jobid",
        "SALLOC_ACCOUNT": "x",
        "SCONTROL_ALL": "1",
        "SINFO_FORMAT": "%n",
        "LC_ALL": "de_DE.UTF-8",
    }
    assert scrubbed(environment) == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_JWT": "token",
        "SLURM_SACK_SOCKET": "/run/sack",
        "LC_ALL": "C",
        "SLURM_TIME_FORMAT": "%s",
    }


def test_sbatch_gets_a_short_list_because_the_job_begins_with_it() -> None:
    given = {
        "PATH": "/bin", "KRB5CCNAME": "FILE:/tmp/krb", "SLURM_CONF": "/etc/slurm/slurm.conf", "HOME": "/of/somebody",
        "LANG": "de_DE.UTF-8", "LC_ALL": "C", "PYTHONPATH": "/mine", "BASH_ENV": "/mine/env",
        "SBATCH_PARTITION": "debug", "WANDB_API_KEY": "x", "SLURM_JOB_ID": "7",
    }  # fmt: skip
    seen: dict[str, dict[str, str]] = {}

    def run(argv: Sequence[str], _t: float, env: Mapping[str, str], _i: str | None, _c: str | None) -> CommandResult:
        seen[os.path.basename(argv[0])] = dict(env)
        return CommandResult(tuple(argv), 0, "", "")

    slurm = Slurm(run, environment=given, which=lambda name, _path: f"/usr/bin/{name}")
    slurm.attempt("sbatch", "job.sbatch")
    slurm.attempt("squeue")
    user = pwd.getpwuid(os.geteuid())
    assert seen["sbatch"] == {
        "PATH": "/bin", "KRB5CCNAME": "FILE:/tmp/krb", "SLURM_CONF": "/etc/slurm/slurm.conf", "SLURM_TIME_FORMAT": "%s",
        "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell,
    }  # fmt: skip
    assert seen["squeue"] == scrubbed(given)


def test_a_missing_command_names_the_host_and_what_to_do() -> None:
    slurm = FakeSlurm().slurm()
    with pytest.raises(SlurmMissing, match=r"'squeue' is not on host .*login node") as caught:
        slurm.call("squeue")
    assert os.uname().nodename.split(".")[0] in caught.value.message
    assert slurm.commands == 0


def test_commands_are_found_beside_the_path(tmp_path: object) -> None:
    folder = str(tmp_path)
    program = os.path.join(folder, "squeue")
    with open(program, "w", encoding="utf-8") as stream:
        stream.write("#!/bin/sh\necho here\n")
    os.chmod(program, 0o755)
    slurm = Slurm(environment={"PATH": ""}, extra_path=(folder,))
    assert slurm.find("squeue") == program
    assert slurm.call("squeue").stdout == "here\n"
    assert slurm.commands == 1


@pytest.mark.parametrize(
    "answer",
    [
        NO_CONTROLLER,
        NO_DATABASE,
        said(stderr="slurm_load_jobs error: Socket timed out on send/recv operation", rc=1),
        said(stderr="sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received", rc=1),
        said(stderr="squeue: error: Munge encode failed: Failed to access socket", rc=1),
        said(rc=124, timed_out=True),
    ],
)
def test_silence_is_not_an_answer(answer: object) -> None:
    slurm = FakeSlurm(squeue=answer).slurm()  # type: ignore[arg-type]
    with pytest.raises(SlurmUnavailable, match="the state of all jobs is unknown"):
        slurm.call("squeue")


def test_a_refusal_is_an_error_with_slurms_own_words() -> None:
    answer = said(stderr="sbatch: error: Batch job submission failed: Invalid partition name specified\n", rc=1)
    slurm = FakeSlurm(sbatch=answer).slurm()
    with pytest.raises(SlurmError, match=r"command failed with exit code 1") as caught:
        slurm.call("sbatch")
    assert not isinstance(caught.value, SlurmUnavailable)
    assert "Invalid partition name specified" in caught.value.message


def test_a_socket_time_out_in_a_success_is_a_success() -> None:
    # Slurm retries by itself and may still succeed; only the exit code decides then.
    assert not said("7\n", "sbatch: Socket timed out on send/recv operation, retrying", 0).silent


def test_a_hanging_command_and_its_children_are_ended() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    result = run_command([sys.executable, "-c", code], 0.5, dict(os.environ))
    assert result.timed_out and result.rc == 124 and result.silent


def test_standard_input_folder_and_odd_bytes() -> None:
    code = "import os, sys; sys.stdout.buffer.write(sys.stdin.buffer.read() + b'\\xff' + os.getcwd().encode())"
    result = run_command([sys.executable, "-c", code], 60, dict(os.environ), "text", "/")
    assert result.stdout == "text\ufffd/"


def test_a_note_is_kept_once() -> None:
    slurm = FakeSlurm().slurm()
    slurm.note("a")
    slurm.note("a")
    assert slurm.notes == ["a"]
