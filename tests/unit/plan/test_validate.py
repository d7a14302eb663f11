# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule between values, broken and kept."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch.reader import abbreviated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.artifact import FORMATS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import (
    BINDS_GPUS,
    OWNED_SBATCH,
    OWNED_SRUN,
    SBATCH,
    SRUN,
    STEP_ONLY,
)


def problems(**data: Any) -> list[str]:
    """What is wrong with a job, without who set it."""
    given = {"name": "job", "command": ["train.py"], **data}
    try:
        validated(merge([Layer("job", {key: value for key, value in given.items() if value != "absent"})]))
    except SpecError as error:
        return [problem.replace(" (set in job)", "") for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"shell": "x"}, "command, shell: both are given; keep one"),
        (
            {"command": "absent"},
            "command: is required (a list of arguments), or shell (a line for bash), or script (a batch script)",
        ),
        ({"script": "#!/bin/sh\n"}, "command, script: both are given; keep one"),
        ({"script_args": ["x"]}, "script_args: has no effect without `script`; use program_args"),
        ({"code": {"in_place": "/home/me"}}, "code.in_place: has no effect without `script`; use code.src"),
        ({"command": "absent", "shell": "x"}, None),
        ({"command": [" "]}, "command: the program (first item) is empty"),
        ({"command": ["x", " "]}, None),
        ({"command": []}, "command: must not be empty"),
        (
            {"resources": {"gpus_per_node": 8}, "launcher": {"ranks_per_node": 4}},
            (
                "launcher.ranks_per_node: 4 ranks on nodes with 8 GPUs: local ranks would map to wrong GPUs; set it to "
                "8 or auto, or resources.gpus_per_node to 4; or, if each rank uses all GPUs of its node, "
                "launcher.gpus to node"
            ),
        ),
        ({"resources": {"gpus_per_node": 8}, "launcher": {"ranks_per_node": 8}}, None),
        ({"resources": {"gpus_per_node": 8}, "launcher": {"ranks_per_node": "auto"}}, None),
        ({"launcher": {"ranks_per_node": 4}}, None),
        (
            {"resources": {"gpus_per_node": 8}, "launcher": {"kind": "torchrun", "ranks_per_node": 1}},
            (
                "launcher.ranks_per_node: 1 ranks on nodes with 8 GPUs: local ranks would map to wrong GPUs; set it to "
                "8 or auto, or resources.gpus_per_node to 1; or, if each rank uses all GPUs of its node, "
                "launcher.gpus to node"
            ),
        ),
        (
            {"resources": {"gpu_type": "h100"}},
            "resources.gpu_type: h100 without resources.gpus_per_node; say how many",
        ),
        ({"resources": {"gpu_type": "h100", "gpus_per_node": 1}}, None),
        ({"resources": {"sbatch": {"mail-type": "END", "requeue": True}}}, None),
        ({"launcher": {"srun": {"mpi": "pmix", "cpu-bind": "cores"}}}, None),
        ({"env": {"A": "1"}, "secrets": {"B": {"from_env": "B"}}}, None),
        (
            {"env": {"A": "1"}, "secrets": {"A": {"from_env": "B"}}},
            "env.A: is also a secret; keep it under secrets only",
        ),
        (
            {"environment": {"mode": "path"}},
            (
                "environment.path: is required with environment.mode path: the folder of a venv or conda environment "
                "(or environment.conda, its name)"
            ),
        ),
        (
            {"environment": {"mode": "venv", "path": "/x"}},
            "environment.path: has no effect with environment.mode venv; set the mode to path",
        ),
        ({"environment": {"mode": "path", "path": "/x"}}, None),
        ({"environment": {"mode": "path", "conda": "torch"}}, None),
        (
            {"environment": {"mode": "conda", "conda": "torch", "file": "environment.yml"}},
            "environment.conda: has no effect with environment.mode conda; set the mode to path",
        ),
        ({"environment": {"mode": "cache", "platform": "x86_64-manylinux_2_28", "python": "3.11"}}, None),
        (
            {"environment": {"mode": "wheelhouse", "platform": "x86_64-manylinux_2_28"}},
            "environment.platform: x86_64-manylinux_2_28 needs environment.python as well, the version on the nodes",
        ),
        (
            {"environment": {"mode": "venv", "platform": "x86_64-manylinux_2_28"}},
            "environment.platform: has no effect with environment.mode venv; it requires cache or wheelhouse",
        ),
        ({"environment": {"mode": "cache"}, "container": {"runtime": "apptainer", "image": "/i.sif"}}, None),
        ({"environment": {"mode": "conda", "file": "environment.yml"}}, None),
        (
            {"environment": {"mode": "conda"}},
            (
                "environment.file: is required with environment.mode conda: environment.yml, an explicit lock or an "
                "archive"
            ),
        ),
        (
            {"environment": {"mode": "venv", "file": "environment.yml"}},
            "environment.file: has no effect with environment.mode venv; set the mode to conda",
        ),
        (
            {"environment": {"mode": "conda", "file": "environment.yml", "extras": ["cpu"]}},
            "environment.extras: has no effect with environment.mode conda; write it into environment.file",
        ),
        ({"environment": {"mode": "sealed", "requirements": "requirements.txt"}}, None),
        (
            {"environment": {"requirements": "requirements.txt"}},
            (
                "environment.requirements: has no effect with environment.mode none; set the mode to one of venv, "
                "sealed, cache, wheelhouse"
            ),
        ),
        (
            {"environment": {"mode": "venv", "requirements": "requirements.txt", "extras": ["cpu"]}},
            "environment.extras: has no effect with environment.requirements; write the packages into that file",
        ),
        ({"env": {"OMP_NUM_THREADS": "4,2"}, "resources": {"cpus_per_rank": 4}}, None),
        (
            {
                "env": {"OMP_NUM_THREADS": "3"},
                "resources": {"cpus_per_rank": 2},
                "launcher": {"kind": "torchrun", "ranks_per_node": 4},
            },
            (
                "env.OMP_NUM_THREADS: 4 ranks x 3 threads = 12 on 8 CPUs of a node; set resources.cpus_per_rank to 3, "
                "or leave the variable out"
            ),
        ),
        ({"artifact": {"path": "deep/result.json"}}, None),
        ({"artifact": {"path": "..result"}}, None),
        ({"artifact": {"format": "any"}}, None),
        (
            {"artifact": {"format": "any", "require": {"loss": {"lt": 4}}}},
            (
                "artifact.require: needs an artifact.format that has values "
                f"({', '.join(kind.name for kind in FORMATS if kind.values)}), not any"
            ),
        ),
        ({"artifact": {"format": "csv", "require": {"loss": {"lt": 4}}}}, None),
        ({"artifact": {"path": "ckpt", "format": "directory", "complete": "metadata.json"}}, None),
        (
            {"artifact": {"path": "ckpt", "format": "directory"}},
            (
                "artifact.complete: names the file that is written last into a directory; it requires artifact.format "
                "directory"
            ),
        ),
        (
            {"artifact": {"path": "ckpt", "format": "directory", "complete": "../done"}},
            "artifact.complete: '../done' is outside the directory; give a path in it",
        ),
        ({"artifact": {"grace": 30}}, "artifact.grace: 30 has no effect unless artifact.then is end"),
        ({"artifact": {"grace": 30, "then": "end"}}, None),
    ],
)
def test_rule(data: dict[str, Any], message: str | None) -> None:
    assert problems(**data) == ([message] if message else [])


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        ({"launcher": {"kind": "torchrun"}}, "launcher.kind", "its own programs"),
        ({"launcher": {"gpus": "node"}}, "launcher.gpus", "its own programs"),
        ({"launcher": {"rendezvous": "c10d"}}, "launcher.rendezvous", "its own programs"),
        ({"launcher": {"port": 29500}}, "launcher.port", "its own port"),
        ({"launcher": {"srun": {"mpi": "pmix"}}}, "launcher.srun", "srun lines"),
        ({"launcher": {"inside_job": "77"}}, "launcher.inside_job", "by hand"),
        ({"resources": {"spares": 1}}, "resources.spares", "all nodes"),
        ({"sweep": {"parameters": {"lr": ["1", "2"]}}}, "sweep", "program_args"),
        ({"resources": {"sbatch": {"ntasks": "8"}}, "preflight": {"enabled": True}}, "preflight.enabled", "nodes"),
        ({"code": {"in_place": "/home/me", "dirty": "refuse"}}, "code.in_place", "code.dirty"),
        ({"artifact": {"path": "r.json"}, "resources": {"sbatch": {"chdir": "/w"}}}, "artifact", "/w"),
        ({"artifact": {"path": "r.json"}, "resources": {"sbatch": {"chdir": "w"}}}, "", ""),
        ({"resources": {"sbatch": {"export": "ALL,A=1"}}}, "resources.sbatch.export", "`env`"),
        ({"resources": {"sbatch": {"export": "NONE"}}}, "", ""),
    ],
)
def test_what_a_batch_script_does_itself_is_refused_with_what_to_do(
    data: dict[str, Any], path: str, words: str
) -> None:
    said = problems(**{"command": "absent", "script": "#!/bin/sh\ntrue\n", "preflight": {"enabled": False}, **data})
    about = [line for line in said if line.startswith(f"{path}: ")]
    assert any(words in line for line in about) if path else said == [], said


@pytest.mark.parametrize("path", ["/abs/result.json", "..", "../result.json", "a/../../b", ".", "a/.."])
def test_an_artifact_outside_of_the_run_directory(path: str) -> None:
    (problem,) = problems(artifact={"path": path})
    assert problem.startswith("artifact.path: ")
    assert problem.endswith("is outside the run directory; give a path relative to the ranks' working directory")


@pytest.mark.parametrize("name", sorted(OWNED_SBATCH))
def test_options_of_the_job_that_something_else_decides(name: str) -> None:
    (problem,) = problems(resources={"sbatch": {name: "x"}})
    instead = f"use {OWNED_SBATCH[name]}" if OWNED_SBATCH[name] else "the collection sets it"
    assert problem == f"resources.sbatch.{name}: may not be given here; {instead}"


@pytest.mark.parametrize("name", sorted(OWNED_SRUN))
def test_options_of_the_step_that_something_else_decides(name: str) -> None:
    (problem,) = problems(launcher={"srun": {name: "x"}})
    assert problem.startswith(f"launcher.srun.{name}: may not be given here; ")


@pytest.mark.parametrize("name", STEP_ONLY)
def test_options_of_the_step_do_not_belong_to_the_job(name: str) -> None:
    (problem,) = problems(resources={"sbatch": {name: "x"}})
    assert problem == (f"resources.sbatch.{name}: is an option of the step, not of the job; move it to launcher.srun")
    if name not in OWNED_SRUN:
        assert problems(launcher={"srun": {name: "x"}}) == []


@pytest.mark.parametrize("name", BINDS_GPUS)
def test_options_that_hide_gpus_from_the_ranks(name: str) -> None:
    for data in ({"resources": {"sbatch": {name: "1"}}}, {"launcher": {"srun": {name: "1"}}}):
        (problem,) = problems(**data)
        assert "binds one GPU to each task" in problem
        assert problem.endswith("or add gpu-bind: none to launcher.srun")
    assert problems(launcher={"srun": {name: "1", "gpu-bind": "none"}}) == []
    assert problems(resources={"sbatch": {name: "1"}}, launcher={"srun": {"gpu-bind": "none"}}) == []


ABBREVIATED = sorted(
    {(name[:end], name) for name in OWNED_SBATCH for end in range(1, len(name)) if name[:end] not in SBATCH}
)


def test_no_beginning_of_an_owned_option_of_the_job_is_taken() -> None:
    """getopt_long(3) takes any beginning that is not ambiguous: --job-nam=other would rename the job."""
    found = problems(resources={"sbatch": {given: "x" for given, _meant in ABBREVIATED}})
    refused = {problem.partition(":")[0] for problem in found if ": abbreviates " in problem}
    assert refused == {f"resources.sbatch.{given}" for given, _meant in ABBREVIATED}
    assert all(meant in abbreviated(given, SBATCH) for given, meant in ABBREVIATED) and len(ABBREVIATED) > 200


def test_what_is_abbreviated_is_named_with_what_to_do() -> None:
    (problem,) = problems(resources={"sbatch": {"job-nam": "other"}})
    assert problem == "resources.sbatch.job-nam: abbreviates job-name; job-name may not be given here, use name"
    (problem,) = problems(launcher={"srun": {"kill-on-bad": "0"}})
    assert problem == (
        "launcher.srun.kill-on-bad: abbreviates kill-on-bad-exit; kill-on-bad-exit may not be given here, "
        "the collection sets it"
    )
    (problem,) = problems(resources={"sbatch": {"mail-typ": "END"}})
    assert problem == "resources.sbatch.mail-typ: abbreviates mail-type; write the full name"


@pytest.mark.parametrize(
    "given", ["requeu", "signa", "no-kil", "gpus-per-tas", "mp", "container-imag", "no-container-e"]
)
def test_no_rule_about_an_option_is_passed_by_writing_less_of_it(given: str) -> None:
    assert problems(resources={"sbatch": {given: True}}) != []
    assert problems(launcher={"srun": {given: True}}) != [] or given == "requeu", "no option of srun"


@pytest.mark.parametrize("name", ["x-site-plugin", "spankle", "mail-type", "wait-all-nodes", "mem-per-cpu", "tmp"])
def test_options_of_a_site_and_whole_names_are_passed_on(name: str) -> None:
    assert problems(resources={"sbatch": {name: "1"}}) == []


@pytest.mark.parametrize("given", ["Job-name", "job_name", "job-name=x", "job-name ", "-job-name", "J"])
def test_a_name_in_another_spelling_is_no_option(given: str) -> None:
    assert problems(resources={"sbatch": {given: "x"}}) != []
    assert problems(launcher={"srun": {given: "x"}}) != []


def test_every_option_that_a_rule_names_is_known() -> None:
    assert set(OWNED_SBATCH) | set(BINDS_GPUS) | set(STEP_ONLY) <= SBATCH
    assert set(OWNED_SRUN) | set(BINDS_GPUS) | set(STEP_ONLY) <= SRUN


def test_devices_a_task_are_refused_where_they_are_gpus() -> None:
    (problem,) = problems(launcher={"srun": {"tres-per-task": "cpu=2,gres/gpu=1"}})
    assert "binds one GPU to each task" in problem
    assert problems(launcher={"srun": {"tres-per-task": "license/solver=1"}}) == []


@pytest.mark.parametrize("launcher", [{}, {"ranks_per_node": 1}, {"ranks_per_node": 3}, {"kind": "torchrun"}])
def test_ranks_may_use_all_gpus_of_their_node_where_that_is_said(launcher: dict[str, Any]) -> None:
    """launcher.gpus: there may be any number of ranks then, and nothing may bind a GPU to one of them."""
    given = {"resources": {"nodes": 2, "gpus_per_node": 8}, "launcher": {"gpus": "node", **launcher}}
    assert problems(**given) == []
    for option in (
        {"gpus-per-task": "1", "gpu-bind": "none"},
        {"gpu-bind": "single:1"},
        {"tres-per-task": "gres/gpu=1"},
    ):
        launcher = {**given["launcher"], "srun": option}
        (problem,) = problems(resources=given["resources"], launcher=launcher)
        assert problem.startswith(f"launcher.srun.{next(iter(option))}: ") and "launcher.gpus node" in problem
    assert problems(resources=given["resources"], launcher={**given["launcher"], "srun": {"gpu-bind": "none"}}) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["gpu:8"], "use resources.gpus_per_node"),
        (["gpu"], "use resources.gpus_per_node"),
        (["none"], "is no resource"),
        (["lscratch:5", "lscratch:6"], "twice"),
        (["lscratch:0"], "must be a generic resource"),
        (["lscratch:5,gpu:8"], "must be a generic resource"),
        (["a\n#SBATCH --job-name=x"], "must be a generic resource"),
        (["lscratch:500"], None),
        (["nic:cx7:2", "nic:cx6:1", "lscratch:1T"], None),
    ],
)
def test_generic_resources(given: list[str], words: str | None) -> None:
    found = problems(resources={"gres": given, "gpus_per_node": 8})
    assert (len(found) == 1 and words in found[0]) if words else found == []


def test_owned_fields_exist() -> None:
    """What a message recommends is in the table."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec

    paths = {info.path for info in fields_of(LaunchSpec)}
    assert {path for path in (*OWNED_SBATCH.values(), *OWNED_SRUN.values()) if path} <= paths


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("RANK", "is set for each rank when the job runs"),
        ("MASTER_ADDR", "is set for each rank when the job runs"),
        ("SLURM_CPU_BIND", "belongs to Slurm or to this collection"),
        ("SALLOC_ACCOUNT", "belongs to Slurm or to this collection"),
        ("SQUEUE_FORMAT", "belongs to Slurm or to this collection"),
        ("SBCAST_COMPRESS", "belongs to Slurm or to this collection"),
        ("SCONTROL_ALL", "belongs to Slurm or to this collection"),
        ("SRUN_CPUS_PER_TASK", "belongs to Slurm or to this collection"),
        ("RANKZERO_SEED", "belongs to Slurm or to this collection"),
        ("rankzero_step", "belongs to Slurm or to this collection"),
        ("IFS", "belongs to bash, which runs the job's script"),
        ("BASH_ENV", "belongs to bash, which runs the job's script"),
        ("POSIXLY_CORRECT", "belongs to bash, which runs the job's script"),
        ("_", "belongs to bash, which runs the job's script"),
    ],
)
def test_names_that_a_job_may_not_set(name: str, why: str) -> None:
    assert problems(env={name: "x"}) == [f"env.{name}: may not be set: it {why}"]
    assert problems(secrets={name: {"from_env": "X"}}) == [f"secrets.{name}: may not be set: it {why}"]


@pytest.mark.parametrize("value", ["/opt/bin:$PATH", "${PATH}:/opt/bin"])
def test_a_value_that_names_itself_is_a_misunderstanding(value: str) -> None:
    """Nothing in a value is expanded: the ranks would find no program at all."""
    (problem,) = problems(env={"PATH": value})
    assert problem.startswith(
        "env.PATH: names itself, but a value is taken as it is written; put 'export PATH=...' into"
    )
    assert problems(env={"OTHER": value, "PATHS": "$PATH", "PATH": "$PATHS"}) == []


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH", "NCCL_DEBUG", "OMP_NUM_THREADS", "rank", "log", "HOME"])
def test_names_that_a_job_may_set(name: str) -> None:
    assert problems(env={name: "x"}) == []
