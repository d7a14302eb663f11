# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two commands of an interactive session. What a shell makes of them is asked of bash itself."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.door import CONNECT, files_of
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import (
    brought,
    described,
    notes,
    programs,
    session,
    values_of,
)
from tests.unit.plan.test_inside_job import planned

FOLDER = "/state/shells/job/"
GPUS = {"gpus_per_node": 2}


def options(words: tuple[str, ...]) -> dict[str, str | bool]:
    """The long options of a command by name."""
    given_ones = [word[2:].partition("=") for word in words if word.startswith("--")]
    return {name: value if sign else True for name, sign, value in given_ones}


def test_salloc_asks_for_what_the_job_would_get() -> None:
    made = planned(
        resources={
            "nodes": 2, "gpus_per_node": 4, "gpu_type": "h100", "cpus_per_rank": 8, "memory": "64G", "time": "02:00:00",
            "partition": "batch", "account": "ml", "qos": "high", "constraint": "ib&nvme", "reservation": "course",
            "exclude": ["node07"], "exclusive": True, "dependency": "afterok:1",
            "sbatch": {"comment": "a b", "requeue": True},
        }
    )  # fmt: skip
    words = session(made).allocate
    assert words[0] == "salloc"
    assert options(words) == {
        "job-name": "job.shell", "nodes": "2", "ntasks-per-node": "4", "cpus-per-task": "8", "time": "02:00:00",
        "gpus-per-node": "h100:4", "mem": "64G", "partition": "batch", "account": "ml", "qos": "high",
        "constraint": "ib&nvme", "reservation": "course", "exclude": "node07", "exclusive": True,
        "dependency": "afterok:1", "comment": "a b",
    }  # fmt: skip


def test_of_several_alternatives_a_session_takes_the_first() -> None:
    ways = [{"account": "a", "time": "00:30:00"}, {"partition": "b"}]
    found = options(session(planned(resources={"any_of": ways, "partition": "batch"})).allocate)
    assert {name: found[name] for name in ("account", "partition", "time")} == {
        "account": "a",
        "partition": "batch",
        "time": "00:30:00",
    }


def test_nothing_of_the_batch_script_reaches_salloc() -> None:
    made = planned(checkpoint={"signal_before_end": 60, "requeue": True})
    assert set(options(session(made).allocate)) == {*("job-name", "nodes", "ntasks-per-node", "cpus-per-task", "time")}


def test_the_shell_is_one_task_with_all_that_the_nodes_ranks_have() -> None:
    made = planned(resources={"nodes": 2, "cpus_per_rank": 3}, launcher={"ranks_per_node": 2})
    words = session(made).shell
    assert words[:2] == ("srun", "--pty")
    assert options(words).items() >= {"nodes": "1", "ntasks": "1", "cpus-per-task": "6", "overlap": True}.items()
    assert words[-2] == "/bin/bash"
    assert words[-1].startswith(FOLDER) and words[-1].endswith("/shell.sh")
    assert "jobid" not in options(words)


def test_the_shell_on_whole_nodes_has_all_their_cpus() -> None:
    made = planned(resources={"exclusive": True}, launcher={"ranks_per_node": 2})
    words = session(made)
    assert "cpus-per-task" not in {**options(words.allocate), **options(words.shell)}


def test_inside_a_running_job_there_is_only_the_shell() -> None:
    made = planned(launcher={"inside_job": "1234"}, resources={"nodes": 2, "gpus_per_node": 2})
    found = session(made, ["node02", "node03"])
    assert found.allocate == ()
    wanted = {"jobid": "1234", "nodelist": "node02", "gres": "gpu:2", "overlap": True}
    assert options(found.shell).items() >= wanted.items()
    assert len(found.lines) == 1
    assert found.command == found.shell


def test_the_container_is_entered_as_the_ranks_do() -> None:
    wanted = {"runtime": "pyxis", "image": "/i.sqsh", "mounts": ["/data:/data:ro"]}
    made = planned(container=wanted, setup={"commands": ["true"]}, secrets={"T": {"from_file": "/t"}})
    given_ones = options(session(made).shell)
    folder = described(session(made))["folder"]
    assert given_ones["container-image"] == "/i.sqsh"
    assert f"{folder}:{folder}" in str(given_ones["container-mounts"]), "the session's own folder, to be written"
    assert "/state/runs" not in str(given_ones["container-mounts"]), "there may be no run yet"
    assert given_ones["container-workdir"] == folder
    assert [note.split(":")[0] for note in notes(made)] == ["not in the shell", "not in the shell"]


def test_a_value_that_only_the_controller_has_is_named_and_not_shown() -> None:
    made = planned(secrets={"T": {"from_env": "T"}, "F": {"from_file": "~/f"}})
    (note,) = notes(made)
    assert note.startswith("not in the shell: the secrets T, which a session has that is opened for you (run=true,")
    assert notes(made, opened=True) == [] and brought(made) == {"T": ""}
    assert "rank/secrets.sh" in programs(made)


def test_a_session_has_a_name_in_slurm() -> None:
    inside = planned(launcher={"inside_job": "7"})
    for name, called in {"shell": "job.shell", "desk": "job.desk"}.items():
        assert options(session(planned(), name=name).allocate)["job-name"] == called
        assert "job-name" not in options(session(planned(), name=name).shell), "the allocation has it"
        assert options(session(inside, name=name).shell)["job-name"] == called


def test_options_of_the_ranks_step_reach_the_session_where_they_mean_something_for_one_task() -> None:
    made = planned(
        launcher={"srun": {"gpu-bind": "single:1", "mpi": "none", "label": False, "verbose": True, "gpus": "2"}},
        parallelism={"tensor": 2},
        resources=GPUS,
    )
    assert notes(made) == [
        "not in the shell: gpu-bind, gpus, verbose of launcher.srun, which the session decides itself"
    ]
    for words in (session(made).shell, tuple(shlex.split(files_of(made, "")[CONNECT].splitlines()[-1]))):
        assert options(words)["mpi"] == "none" and not {"gpu-bind", "gpus", "verbose"} & {*options(words)}
    assert dict(values_of(made))["RANKZERO_TP"] == "2"
    assert programs(made) == ("start/serve.sh",) and values_of(planned()) == []


# What Slurm's own names and a free option may hold; a control character is an error of the spec.
printable = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1)


@settings(max_examples=60, deadline=None)
@given(comment=printable, value=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_value_survives_the_shell_and_no_variable_is_in_the_commands(comment: str, value: str) -> None:
    if comment.lower() in ("true", "false"):
        comment += "!"
    made = planned(resources={"sbatch": {"comment": comment}}, env={"GREETING": f"secret-looking {value}"})
    found = session(made)
    assert "secret-looking" not in " ".join(found.lines)
    assert [tuple(shlex.split(line)) for line in found.lines] == [found.allocate, found.shell]
    assert f"--comment={comment}" in found.allocate


@pytest.mark.parametrize("comment", ["it's", 'say "$HOME" `id` \\ #1 !! ; rm -rf *', "é 日本", "~", "-x"])
def test_bash_gives_the_program_what_the_plan_says(comment: str) -> None:
    made = planned(resources={"sbatch": {"comment": comment}})
    found = session(made)
    show = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
    line = f'salloc() {{ {shlex.join(show)} "$@"; }}; {found.lines[0]}'
    done = subprocess.run(["/bin/bash", "-c", line], capture_output=True, text=True, check=True)
    seen: list[Any] = json.loads(done.stdout)
    assert tuple(seen) == found.allocate[1:]
