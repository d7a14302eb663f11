# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers (C1, C2, C5, L9): rules, the step's flags, and each silent trap of pyxis, by its number in spec/pyxis.md.

Traps that need a run (3, 5, 8, 9, 10) are in tests/unit/runtime/test_container.py. Trap 11 (an extraction to memory
counts against the step) is a setting of the nodes, and documented.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.launch import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.checks import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.container import LEAKING, request
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.merge import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.mounts import Mount, mount
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.plan import Plan, plan, summary
from ansible_collections.rankzero.slurm.plugins.plugin_utils.rendering import render_script

IMAGE = "/images/torch.sqsh"
PYXIS = {"runtime": "pyxis", "image": IMAGE}
APPTAINER = {"runtime": "apptainer", "image": "/images/torch.sif"}


def problems(container: dict[str, Any], **data: Any) -> list[str]:
    given = {"name": "job", "command": ["train.py"], "container": container, **data}
    try:
        validated(merge([Layer("job", given)]))
    except SpecError as error:
        return [problem.replace(" (set in job)", "") for problem in error.problems]
    return []


def planned(container: dict[str, Any], roots: tuple[str, str] = ("/state", "/store"), **data: Any) -> Plan:
    merged = merge([Layer("job", {"name": "job", "command": ["train.py"], "container": container, **data})])
    return plan(
        validated(merged),
        merged,
        code_key="c0de",
        environment_key="e5e5",
        runtime_key="4444",
        state_root=roots[0],
        store_root=roots[1],
    )


def step(container: dict[str, Any], **data: Any) -> dict[str, str | bool]:
    return dict(planned(container, **data).step)


# --- rules


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({}, None),
        (PYXIS, None),
        (APPTAINER, None),
        ({"runtime": "oci"}, "container.runtime: must be one of none, pyxis, apptainer; not 'oci'"),
        ({"runtime": "pyxis"}, "container.image: is required for container.runtime pyxis"),
        (
            {"image": IMAGE},
            "container.image: has no effect without a container; set container.runtime to pyxis or apptainer",
        ),
        (
            {"mounts": ["/d:/d"]},
            "container.mounts: has no effect without a container; set container.runtime to pyxis or apptainer",
        ),
        (
            {**APPTAINER, "remap_root": True},
            "container.remap_root: is pyxis' own; under apptainer a rank is the user that submitted the job",
        ),
        (
            {"runtime": "apptainer", "image": "torch.sif"},
            "container.image: 'torch.sif' must be an absolute path on the cluster for apptainer",
        ),
        ({"runtime": "pyxis", "image": "nvcr.io#nvidia/pytorch:24.07-py3"}, None),
        ({"runtime": "pyxis", "image": "ubuntu"}, None),
        (
            {"runtime": "pyxis", "image": "Not A Name"},
            (
                "container.image: 'Not A Name' is neither an absolute path nor a registry's name such as "
                "nvcr.io#nvidia/pytorch:24.07-py3"
            ),
        ),
        (
            {"runtime": "pyxis", "image": "/a b.sqsh"},
            "container.image: '/a b.sqsh' has a blank, comma, colon or backslash; rename the file",
        ),
        ({**PYXIS, "mounts": ["/d:/d", "/e:/d/"]}, "container.mounts: /d:/d and /e:/d have one target"),
        (
            {**APPTAINER, "mounts": ["/d:/d:rprivate"]},
            "container.mounts: /d:/d:rprivate: apptainer knows the flags ro and rw, not rprivate",
        ),
        ({**PYXIS, "env": ["RANK"]}, "container.env: RANK may not be named: it is set for each rank when the job runs"),
        (
            {**PYXIS, "workdir": "/w"},
            (
                "container.workdir: train.py lies in the run's own working directory, which is not /w; leave workdir "
                "out, or give the program's path inside the container"
            ),
        ),
        ({**PYXIS, "image": 5.5}, "container.image: must be text; YAML read it as 5.5: quote it"),
    ],
)
def test_rules(container: dict[str, Any], message: str | None) -> None:
    assert problems(container) == ([message] if message else [])


def test_all_mistakes_are_told_at_once() -> None:
    found = problems({"runtime": "apptainer", "image": "x", "remap_root": True, "mounts": ["/a:/b:slave", "/c:/b"]})
    assert len(found) == 4


def test_what_decides_behind_the_spec_is_refused() -> None:
    assert problems(PYXIS, env={"PYXIS_CONTAINER_NAME": "x"}) == [
        "env.PYXIS_CONTAINER_NAME: decides about the container behind the spec; use container instead"
    ]


def test_the_preflight_cannot_import_from_an_image() -> None:
    assert problems(PYXIS, preflight={"imports": ["torch"]}) == [
        "preflight.imports: the preflight looks at the nodes and not into the image; leave it out"
    ]
    assert problems(PYXIS, preflight={"imports": ["torch"]}, environment={"mode": "venv"}) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/data", "must be source:target or source:target:flags, not '/data'"),
        (":/data", "must be source:target or source:target:flags, not ':/data'"),
        ("/a:/b:", "must be source:target or source:target:flags, not '/a:/b:'"),
        ("/a:/b:ro:rw", "must be source:target or source:target:flags, not '/a:/b:ro:rw'"),
        ("data:/data", "has the source 'data', which must be an absolute path (no ~, no $)"),
        ("~/d:/data", "has the source '~/d', which must be an absolute path (no ~, no $)"),
        ("/data:data", "has the target 'data', which must be an absolute path (no ~, no $)"),
        ("/a b:/data", "has the source '/a b'; no blank, comma, colon or backslash can be in a mount"),
        ("/a:/", "has the target /, which is the image itself"),
        ("/a:/b:ro+rw", "is both ro and rw: '/a:/b:ro+rw'"),
    ],
)
def test_a_mount_that_will_not_do(text: str, message: str) -> None:
    with pytest.raises(t.Invalid) as error:
        mount(text)
    assert str(error.value) == message


def test_a_mount_has_one_spelling() -> None:
    assert mount("/a/../data/:/d//e:ro+nosuid") == Mount("/data", "/d/e", ("ro", "nosuid"))
    assert str(mount("/data/:/d")) == "/data:/d"


def test_a_mount_may_not_hide_what_the_job_needs() -> None:
    # Over the run directory, inside the code, and above the store from elsewhere.
    for bad in ("/x:/state/runs", "/x:/store/code/c0de/sub", "/x:/store"):
        with pytest.raises(SpecError, match=r"is in the way of /st"):
            planned({**PYXIS, "mounts": [bad]})
    assert planned({**PYXIS, "mounts": ["/store:/store:ro"]}).container


def test_the_wider_mount_comes_first() -> None:
    mounts = str(step({**PYXIS, "mounts": ["/store/data/x:/store/data/x", "/store:/store:ro"]})["container-mounts"])
    targets = [one.split(":")[1] for one in mounts.split(",")]
    assert targets.index("/store") == 0
    assert targets == sorted(targets, key=lambda target: target.count("/"))


# --- what the step gets


def test_without_a_container_nothing_changes() -> None:
    made = planned({})
    assert made.container is None
    assert not [name for name, _value in made.step if "container" in name]
    assert "container" not in render_script(made)
    assert request(made.spec) is None


def test_the_run_is_writable_and_all_else_of_ours_is_not() -> None:
    mounts = str(step(PYXIS)["container-mounts"]).split(",")
    assert sorted(one for one in mounts if one.endswith(":ro")) == [
        "/state/runtime/4444:/state/runtime/4444:ro",
        "/store/code/c0de:/store/code/c0de:ro",
        "/store/environments/e5e5:/store/environments/e5e5:ro",
    ]
    assert [one for one in mounts if not one.endswith(":ro")] == [
        f"{planned(PYXIS).runs_dir()}:{planned(PYXIS).runs_dir()}"
    ]


def test_apptainer_gets_words_and_no_flags() -> None:
    made = planned({**APPTAINER, "mounts": ["/d:/e:ro"], "workdir": "/w", "writable": True}, command=["/w/train.py"])
    assert made.container
    assert not [name for name, _value in made.step if "container" in name]
    words = made.container.words
    assert words[0] == "exec" and words[-1] == "/images/torch.sif"
    assert {"--bind=/d:/e:ro", "--pwd=/w", "--no-mount=home,cwd", "--writable-tmpfs"} <= set(words)
    assert "--nv" not in words
    assert re.search(
        r'"\$RANKZERO_APPTAINER" exec .* \\\n    /bin/bash "\$RANKZERO_RUNTIME/enter.sh" "\$RANKZERO_RUNTIME/rank.sh"',
        render_script(made),
    )


@pytest.mark.parametrize(("gpu_type", "flag"), [(None, "--nv"), ("h100", "--nv"), ("mi300x", "--rocm")])
def test_apptainer_is_told_about_gpus(gpu_type: str | None, flag: str) -> None:
    made = planned(APPTAINER, resources={"gpus_per_node": 1, **({"gpu_type": gpu_type} if gpu_type else {})})
    assert made.container and flag in made.container.words


def test_the_home_is_mounted_only_where_asked() -> None:
    with_home = planned({**APPTAINER, "mount_home": True}).container
    assert with_home and "--no-mount=cwd" in with_home.words and "HOME" in with_home.variables
    assert step({**PYXIS, "mount_home": True})["container-mount-home"] is True


def test_torchrun_itself_runs_inside() -> None:
    text = render_script(planned(PYXIS, launcher={"kind": "torchrun"}))
    assert '/bin/bash "$RANKZERO_RUNTIME/enter.sh" "$RANKZERO_RUNTIME/node.sh"' in text


def test_the_summary_and_the_request_name_it() -> None:
    made = planned({**APPTAINER}, setup={"modules": ["apptainer"]})
    assert any(line.endswith("in /images/torch.sif by apptainer") for line in summary(made))
    assert request(made.spec) == {"runtime": "apptainer", "own_setup": True}


# --- the silent traps of pyxis, by number


def test_trap_1_mounts_are_one_flag_and_a_bad_one_is_an_error() -> None:
    names = [name for name, _value in planned({**PYXIS, "mounts": ["/a:/a", "/b:/b"]}).step]
    assert names.count("container-mounts") == 1
    assert not str(step(PYXIS)["container-mounts"]).endswith(",")
    assert problems({**PYXIS, "mounts": ["/a:/a,"]}) == [
        "container.mounts: item 1 has the target '/a,'; no blank, comma, colon or backslash can be in a mount"
    ]
    assert problems({**PYXIS, "mounts": ["/a:/a:rprivat"]})[0].startswith(
        "container.mounts: item 1 has the flag 'rprivat'; did you mean rprivate?; known, joined by +: ro, rw,"
    )


@pytest.mark.parametrize("image", ["torch.sqsh", "images/torch.sqsh", "./torch.sqsh", "~/torch.sqsh", "../x"])
def test_trap_1_a_relative_image_is_an_error(image: str) -> None:
    assert problems({"runtime": "pyxis", "image": image}) == [
        (
            f"container.image: {image!r} is not an absolute path, and pyxis would take it for a registry's name; give "
            "its absolute path on the cluster"
        )
    ]


def test_trap_2_no_flag_is_in_the_header_and_none_can_be_brought_there() -> None:
    made = planned(PYXIS)
    assert not [name for name, _value in made.header if "container" in name]
    assert not re.search(r"#SBATCH.*container", render_script(made))
    for where in ("resources.sbatch", "launcher.srun"):
        section, name = where.split(".")
        for flag in ("container-image", "no-container-mount-home"):
            assert problems(PYXIS, **{section: {name: {flag: "x"}}}) == [
                f"{where}.{flag}: may not be given here; use the section container, which puts it on the ranks' step"
            ]


def test_trap_4_a_container_never_has_a_name() -> None:
    assert "container-name" not in step(PYXIS)
    assert problems(PYXIS, launcher={"srun": {"container-name": "x"}}) == [
        (
            "launcher.srun.container-name: may not be given here; a named container that was interrupted is used half "
            "made by the next job"
        )
    ]


def test_trap_6_no_login_shell_and_no_entrypoint_of_the_image() -> None:
    for data in ({}, {"command": None, "shell": "train"}, {"launcher": {"kind": "torchrun"}}):
        text = render_script(planned(PYXIS, **data))
        assert not re.search(r"(bash|sh) (-\w*l|--login)", text)
        assert "--no-container-entrypoint \\" in text


def test_trap_7_the_working_directory_is_always_given() -> None:
    assert step(PYXIS)["container-workdir"] == planned(PYXIS).runs_dir()
    inside = planned({**PYXIS, "workdir": "/workspace"}, command=["/workspace/train.py"])
    assert dict(inside.step)["container-workdir"] == "/workspace"
    assert "export RANKZERO_WORKDIR=/workspace" in render_script(inside)


def test_trap_8_home_root_and_entrypoint_are_said_outright() -> None:
    assert [name for name, value in planned(PYXIS).step if value is True] == [
        "no-container-mount-home",
        "no-container-remap-root",
        "container-readonly",
        "no-container-entrypoint",
    ]


def test_trap_10_what_the_node_has_does_not_leak_in_unless_the_job_says_so() -> None:
    assert f"unset {' '.join(LEAKING)}\nrankzero_launch" in render_script(planned(PYXIS))
    made = planned({**PYXIS, "env": ["LD_LIBRARY_PATH", "SITE"]}, env={"PYTHONPATH": "/mine", "LANG": "C.UTF-8"})
    assert made.container
    assert made.container.cleared == ("LD_PRELOAD", "PYTHONHOME")
    # The job's own and the named ones win over the image's, LANG and all.
    assert {"LD_LIBRARY_PATH", "SITE", "PYTHONPATH", "LANG", "OMP_NUM_THREADS"} <= set(made.container.variables)
    # Named ones are also there for the hooks that run before any shell.
    assert dict(made.step)["container-env"] == "LD_LIBRARY_PATH,SITE"
    assert "container-env" not in step(PYXIS)


def test_traps_12_and_13_one_bad_node_ends_the_step_and_its_size_is_explicit() -> None:
    options = step(PYXIS, resources={"nodes": 3, "gpus_per_node": 2})
    assert options["kill-on-bad-exit"] == "1"
    assert (options["nodes"], options["ntasks"], options["ntasks-per-node"]) == ("3", "6", "2")


def test_trap_14_nothing_of_ours_lies_in_tmp() -> None:
    for roots in (("/tmp/state", "/store"), ("/state", "/tmp/store")):
        with pytest.raises(SpecError, match=r"launch_cluster\.(state|store)_root: /tmp/\S+ lies in /tmp, which enroot"):
            planned(PYXIS, roots)
    assert planned(PYXIS, ("/tmpfs/state", "/store")).container
    assert planned(APPTAINER, ("/tmp/state", "/store")).container


def test_a_place_that_cannot_be_mounted_is_named() -> None:
    with pytest.raises(SpecError, match=r"launch_cluster.state_root: /my state/runs/\S+ has a blank"):
        planned(APPTAINER, ("/my state", "/store"))
