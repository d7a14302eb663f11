# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a login node can say of a job's container before it is submitted, and what cluster_info shows."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import container_support
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import ContainerNeeds
from tests.unit.slurm.recorded import FakeSlurm, said

#: Of `srun --help` with pyxis 0.15: two of its lines are enough for what is asked.
PYXIS = """
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
      --container-mounts=SRC:DST[:FLAGS][,SRC:DST...]
      --container-workdir=PATH
      --container-writable --container-readonly --container-env=NAME[,NAME...]
      --container-mount-home  [pyxis] --no-container-mount-home --no-container-remap-root --no-container-entrypoint
"""
OLD = PYXIS.replace("--container-env=NAME[,NAME...]", "")
WITHOUT = "  --container Path to OCI container bundle\n"
FLAGS = ("container-image", "container-mounts", "no-container-mount-home", "container-readonly")


def asked(answers: dict[str, str], **given: object) -> tuple[list[str], list[str], FakeSlurm]:
    """(problems, notes) on a host with these commands and what they say."""
    fake = FakeSlurm(**{name: said(text) for name, text in answers.items()})
    slurm = fake.slurm()
    wanted: dict[str, object] = {"runtime": "pyxis", "own_setup": False, **given}
    return container_support.check(slurm, ContainerNeeds(**wanted)), slurm.notes, fake  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "given", "problem"),
    [
        ({"srun": PYXIS}, {"options": FLAGS}, None),
        ({"srun": PYXIS, "sbatch": PYXIS}, {"options": FLAGS, "level": "job"}, None),
        (
            {"srun": PYXIS, "sbatch": WITHOUT},
            {"level": "job"},
            "container.level: job needs options that sbatch does not",
        ),
        ({"srun": WITHOUT}, {}, "has no --container-image). No other can be seen from here. Use container.runtime"),
        (
            {"srun": WITHOUT, "crun": "", "enroot": ""},
            {},
            "--container-image). It has enroot, crun. Use container.runtime",
        ),
        (
            {"srun": OLD},
            {"options": (*FLAGS, "container-env")},
            "container: the pyxis of this cluster (0.11 or newer) has no --container-env; leave out what asks for it",
        ),
        ({"apptainer": ""}, {"runtime": "apptainer"}, None),
        ({"singularity": ""}, {"runtime": "apptainer"}, None),
        ({"crun": ""}, {"runtime": "oci"}, None),
    ],
)
def test_a_missing_runtime_is_said_with_what_to_choose(
    answers: dict[str, str], given: dict[str, object], problem: str | None
) -> None:
    problems, notes, _fake = asked(answers, **given)
    assert len(problems) == (1 if problem else 0) and notes == []
    assert not problem or problem in problems[0]


@pytest.mark.parametrize(("runtime", "command"), [("apptainer", "apptainer"), ("oci", "crun")])
def test_a_command_that_only_the_nodes_may_have_is_a_note(runtime: str, command: str) -> None:
    problems, notes, fake = asked({"runc": "", "enroot": ""}, runtime=runtime)
    assert problems == [] and len(notes) == 1
    assert notes[0].startswith(f"container.runtime: {command} is not in PATH on ")
    assert notes[0].endswith("setup.modules. It has enroot.")
    # A module may bring it; and none of this asks Slurm.
    assert asked({}, runtime=runtime, own_setup=True)[:2] == ([], [])
    assert fake.asked == []


def squashfs(path: Path, length: int, size: int) -> str:
    path.write_bytes((b"hsqs" + bytes(36) + struct.pack("<Q", length)).ljust(size, b"\0"))
    return str(path)


@pytest.mark.parametrize(
    ("runtime", "content", "trouble"),
    [
        ("pyxis", "squashfs", None),
        ("pyxis", "cut", "is cut off: 100 bytes of 4096"),
        ("pyxis", "text", "is not a squashfs file, which pyxis needs"),
        ("pyxis", "empty", "is not a squashfs file, which pyxis needs"),
        ("pyxis", "sif", "is not a squashfs file, which pyxis needs"),
        ("pyxis", "root", "is a folder; pyxis needs a .sqsh file"),
        ("apptainer", "sif", None),
        ("apptainer", "squashfs", None),
        ("apptainer", "root", None),
        ("apptainer", "text", "is neither a SIF file nor a squashfs"),
        ("apptainer", "folder", "has neither bin nor usr (nor config.json, as an OCI bundle): it is not an image"),
        ("oci", "root", None),
        ("oci", "bundle", None),
        ("oci", "folder", "has neither bin nor usr (nor config.json, as an OCI bundle): it is not an image"),
        ("oci", "squashfs", None),
        ("oci", "cut", "is cut off: 100 bytes of 4096"),
        ("oci", "text", "is neither a squashfs file nor a folder (an OCI bundle: config.json and its root; or a root"),
    ],
)
def test_an_image_is_told_by_its_first_bytes(tmp_path: Path, runtime: str, content: str, trouble: str | None) -> None:
    image = tmp_path / "image"
    if content in ("squashfs", "cut"):
        squashfs(image, 4096, 100 if content == "cut" else 4096)
    elif content in ("root", "bundle", "folder"):
        image.mkdir()
        if content == "root":
            (image / "usr").mkdir()
        elif content == "bundle":
            (image / "config.json").touch()
    else:
        image.write_bytes(
            {"text": b"FROM x", "empty": b"", "sif": b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0"}[content]
        )
    answers = {"srun": PYXIS, "apptainer": "", "crun": ""}
    problems, _notes, _fake = asked(answers, runtime=runtime, image=str(image))
    assert [problem.startswith(f"container.image: {image} {trouble}") for problem in problems] == (
        [True] if trouble else []
    )


def test_an_image_that_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # root reads everything, whatever the mode.
    monkeypatch.setattr(container_support.os, "access", lambda path, mode: False)
    image = squashfs(tmp_path / "image", 96, 96)
    assert asked({"srun": PYXIS}, image=image)[0][0].startswith(f"container.image: {image} may not be read by you on ")


def test_what_is_missing_where_the_runs_lie_is_an_error_and_elsewhere_the_nodes_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "state" / "runs" / "job"
    given = {"image": f"{tmp_path}/images/torch.sqsh", "sources": [f"{tmp_path}/data", "/"], "runs_dir": str(runs)}
    problems, _notes, _fake = asked({"srun": PYXIS}, **given)
    assert [problem.split(" does not exist (")[0] for problem in problems] == [
        f"container.image: {tmp_path}/images/torch.sqsh",
        f"container.mounts: {tmp_path}/data",
    ]
    real = container_support.os.stat
    # As if the runs were on another file system.
    (tmp_path / "state").mkdir()

    def stat(path: str) -> object:
        return type("Stat", (), {"st_dev": 99}) if "state" in str(path) else real(path)

    monkeypatch.setattr(container_support.os, "stat", stat)
    assert asked({"srun": PYXIS}, **given)[0] == []


def test_cluster_info_names_versions() -> None:
    fake = FakeSlurm(
        srun=said(PYXIS),
        sbatch=said(WITHOUT),
        enroot=said("3.4.1\n"),
        apptainer=said("apptainer version 1.4.5-2\n"),
        crun=said("crun version 1.8.1\ncommit: f8a0\n"),
        runc=said("", "broken", 1),
    )
    found = container_support.detect(fake.slurm(), {"SLURM_CONF": "/nowhere/slurm.conf"})
    shown = {
        "pyxis": {"available": True, "version": "0.15 or newer", "job_level": False},
        "enroot": {"available": True, "version": "3.4.1"},
        "apptainer": {"available": True, "version": "1.4.5-2"},
        "singularity": {"available": False, "version": None},
        "crun": {"available": True, "version": "1.8.1"},
        "runc": {"available": True, "version": None},
        "slurm_oci": {"available": False, "version": None},
    }
    absent = {name: {"available": False, "version": None} for name in found.keys() - shown.keys()}
    assert found == {**absent, **shown}


@pytest.mark.parametrize(
    ("help_text", "version"),
    [
        (PYXIS + "--container-unshare=x", "0.24 or newer"),
        (PYXIS, "0.15 or newer"),
        (OLD, "0.11 or newer"),
        ("--container-image", "older than 0.11"),
        (WITHOUT, None),
    ],
)
def test_the_release_of_pyxis_shows_in_its_options(help_text: str, version: str | None) -> None:
    found = container_support.detect(FakeSlurm(srun=said(help_text), sbatch=said(help_text)).slurm(), {})["pyxis"]
    assert found == {"available": version is not None, "version": version, "job_level": version is not None}


def test_slurms_own_containers_are_those_of_oci_conf(tmp_path: Path) -> None:
    (tmp_path / "oci.conf").touch()
    answers: dict[str, CommandResult] = {"srun": said(WITHOUT)}
    found = container_support.detect(FakeSlurm(**answers).slurm(), {"SLURM_CONF": str(tmp_path / "slurm.conf")})  # type: ignore[arg-type]
    assert found["slurm_oci"]["available"] is True
