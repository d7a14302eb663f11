# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers: rules, the step's flags, and the words of the other runtimes. Traps: test_pyxis.py."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import ContainerNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import Mount
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.registry import (
    REMAPPING,
    RUNTIMES,
    runtime_names,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.mounts import mount
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import container_needs
from tests.unit.plan.containers import APPTAINER, IMAGE, OCI, PYXIS, planned, problems, step

ANY = runtime_names(RUNTIMES, "or")

# --- rules


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({}, None),
        (PYXIS, None),
        (APPTAINER, None),
        (OCI, None),
        (
            {"runtime": "docker"},
            (
                f"container.runtime: must be one of none, {runtime_names(RUNTIMES)}; not 'docker'; a cluster declares "
                "others in launch_cluster.containers"
            ),
        ),
        (
            {"runtime": "oci", "image": "docker.io#ubuntu"},
            "container.image: 'docker.io#ubuntu' must be an absolute path on the cluster for oci",
        ),
        ({**OCI, "remap_root": True, "mounts": ["/d:/d:rprivate+nosuid"]}, None),
        ({**PYXIS, "level": "job"}, None),
        (
            {**OCI, "level": "job"},
            "container.level: job is of pyxis, whose options Slurm knows; another runtime is a command of the step",
        ),
        (
            {"level": "job"},
            "container.level: job is of pyxis, whose options Slurm knows; another runtime is a command of the step",
        ),
        ({"runtime": "pyxis"}, "container.image: is required for container.runtime pyxis (or container.build)"),
        (
            {"runtime": "oci", "image": "/i", "build": {"suite": "bookworm"}},
            "container.build: makes an image, and container.image names one; give one of them",
        ),
        (
            {"build": {"suite": "bookworm"}},
            f"container.build: has no effect without a container; set container.runtime to {ANY}",
        ),
        (
            {"runtime": "oci", "build": {"suit": "bookworm"}},
            (
                "container.build.suit: unknown key; did you mean suite?; known here: containerfile, context, target, "
                "build_args, secrets, suite, packages, mirror, reference, env"
            ),
        ),
        (
            {"image": IMAGE},
            f"container.image: has no effect without a container; set container.runtime to {ANY}",
        ),
        (
            {"mounts": ["/d:/d"]},
            f"container.mounts: has no effect without a container; set container.runtime to {ANY}",
        ),
        (
            {**APPTAINER, "remap_root": True},
            (
                f"container.remap_root: is of {runtime_names(REMAPPING, 'and')}; under apptainer a rank is the user "
                "that submitted the job"
            ),
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
        ({**PYXIS, "workdir": "/w"}, None),
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
    assert problems(PYXIS, secrets={"PYXIS_CONTAINER_IMAGE": {"from_env": "X"}}) != []
    for name in ("APPTAINER_BIND", "APPTAINERENV_LD_PRELOAD", "SINGULARITY_CONTAIN"):
        assert problems(APPTAINER, env={name: "x"}) != []
        assert problems(PYXIS, env={name: "x"}) == []
    assert problems(APPTAINER, env={"APPTAINER_CACHEDIR": "/scratch/x"}) == []


def test_what_is_mounted_in_a_nodes_tmp_is_brought_into_enroot_and_seen_without_that_elsewhere() -> None:
    packed = {"path": "/store/datasets/by-name/images", "digest": "d" * 64, "packed": True}
    parts = {"environment": {"mode": "sealed"}, "data": {"images": packed, "text": "/project/texts"}}
    for runtime, local in (("pyxis", ("RANKZERO_SEALED", "RANKZERO_DATA_IMAGES")), ("oci", ())):
        container = {**PYXIS, "runtime": runtime}
        assert problems(container, **parts) == []
        made = planned(container, **parts).container
        assert made is not None and made.local == local
    plain = planned(PYXIS, environment={"mode": "venv"}, data={"text": "/project/texts"}).container
    assert plain is not None and plain.local == ()


def test_the_preflight_cannot_import_from_an_image() -> None:
    assert problems(PYXIS, preflight={"imports": ["torch"]}) == [
        (
            "preflight.imports: under pyxis the preflight checks the nodes, not the image, which would be "
            "extracted once more for it; omit it"
        )
    ]
    for looked_into in (APPTAINER, OCI):
        assert problems(looked_into, preflight={"imports": ["torch"]}) == []
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
        with pytest.raises(SpecError, match=r"overlaps /st"):
            planned({**PYXIS, "mounts": [bad]})
    assert planned({**PYXIS, "mounts": ["/store:/store:ro"]}).container


def test_the_folder_of_checkpoints_is_there_and_may_be_written() -> None:
    def mounts(**container: Any) -> list[str]:
        made = planned({**PYXIS, **container}, checkpoint={"dir": "/scratch/ml//c"})
        return str(dict(made.step)["container-mounts"]).split(",")

    assert "/scratch/ml/c:/scratch/ml/c" in mounts()
    assert "/scratch/ml/c:/scratch/ml/c" not in mounts(mounts=["/scratch:/scratch"])
    assert "/scratch/ml/c:/scratch/ml/c" in mounts(mounts=["/scratch:/scratch:ro"])
    with pytest.raises(SpecError, match=r"checkpoint.dir: /tmp/c is in /tmp, which enroot hides"):
        planned(PYXIS, checkpoint={"dir": "/tmp/c"})


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
    assert container_needs(made) == []


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
    assert {"--bind=/d:/e:ro", "--pwd=/w", "--no-mount=home", "--no-mount=cwd", "--writable-tmpfs"} <= set(words)
    assert "--nv" not in words
    text = render_script(made)
    assert 'rankzero_enter=(\n    "$RANKZERO_APPTAINER"\n    exec\n' in text
    step = '    "${rankzero_enter[@]}" \\\n    /bin/bash "$RANKZERO_RUNTIME/container/enter.sh" '
    assert step + '"$RANKZERO_RUNTIME/rank/rank.sh"' in text


def test_oci_gets_words_and_no_flags() -> None:
    made = planned(
        {**OCI, "mounts": ["/d:/e:ro"], "writable": True, "remap_root": True, "mount_home": True}, command=["./train"]
    )
    assert made.container
    assert not [name for name, _value in made.step + made.header if "container" in name]
    words = made.container.words
    assert words[0] == "--image=/images/torch" and words[-1] == "--"
    assert {"--bind=/d:/e:ro", f"--pwd={made.runs_dir()}", "--home", "--writable", "--remap-root"} <= set(words)
    assert "--nvidia" not in words
    text = render_script(made)
    assert 'python.sh" -I "$RANKZERO_RUNTIME/container/oci.py" --scratch="$RANKZERO_RUN_DIR/.container"' in text
    assert '    "${rankzero_enter[@]}" \\\n    /bin/bash "$RANKZERO_RUNTIME/container/enter.sh"' in text


@pytest.mark.parametrize(("gpu_type", "has"), [(None, True), ("h100", True), ("mi300x", False)])
def test_oci_brings_the_drivers_libraries_of_nvidia_only(gpu_type: str | None, has: bool) -> None:
    made = planned(OCI, resources={"gpus_per_node": 1, **({"gpu_type": gpu_type} if gpu_type else {})})
    assert made.container and ("--nvidia" in made.container.words) is has


@pytest.mark.parametrize(("gpu_type", "flag"), [(None, "--nv"), ("h100", "--nv"), ("mi300x", "--rocm")])
def test_apptainer_is_told_about_gpus(gpu_type: str | None, flag: str) -> None:
    made = planned(APPTAINER, resources={"gpus_per_node": 1, **({"gpu_type": gpu_type} if gpu_type else {})})
    assert made.container and flag in made.container.words


def test_the_home_is_mounted_only_where_asked() -> None:
    with_home = planned({**APPTAINER, "mount_home": True}).container
    assert with_home and {"--no-mount=cwd", "--no-mount=home"} & set(with_home.words) == {"--no-mount=cwd"}
    assert "HOME" in with_home.variables
    assert step({**PYXIS, "mount_home": True})["container-mount-home"] is True


def test_torchrun_itself_runs_inside() -> None:
    text = render_script(planned(PYXIS, launcher={"kind": "torchrun"}))
    assert '/bin/bash "$RANKZERO_RUNTIME/container/enter.sh" "$RANKZERO_RUNTIME/rank/node.sh"' in text


def test_the_summary_and_the_request_name_it() -> None:
    made = planned({**APPTAINER}, setup={"modules": ["apptainer"]})
    assert any(line.startswith("in      /images/torch.sif by apptainer") for line in summary(made))
    assert container_needs(made) == [
        ContainerNeeds(
            runtime="apptainer",
            own_setup=True,
            options=[],
            level="step",
            image="/images/torch.sif",
            sources=[],
            runs_dir=made.runs_dir(),
        )
    ]
    made = planned({**PYXIS, "level": "job", "image": "ubuntu", "mounts": ["/d:/e"], "env": ["A"]})
    (asked,) = container_needs(made)
    assert (asked.level, asked.image, asked.sources) == ("job", "", ["/d"])
    assert asked.options == [name for name, _value in made.step if "container" in name]


def test_a_place_that_cannot_be_mounted_is_named() -> None:
    with pytest.raises(SpecError, match=r"launch_cluster.state_root: /my state/runs/\S+ has a blank"):
        planned(APPTAINER, ("/my state", "/store"))
