# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module `image` through ansible-playbook with a real buildah, as root and as an ordinary user.

A real Debian suite: tests/cluster/test_environment_example.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.image_desk import Desk
from tests.repository import BIN

#: A user without rights, and the range of numbers that is his for the time of a test.
USER = 65534

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a user's own part is tried by becoming one, which takes root"),
    pytest.mark.skipif(
        not all(shutil.which(name) for name in ("buildah", "tar2sqfs", "unsquashfs", "newuidmap")),
        reason="buildah, squashfs-tools, squashfs-tools-ng or uidmap is not installed",
    ),
]


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """Where an ordinary user can get to as well, which pytest's own folders are not."""
    with tempfile.TemporaryDirectory(prefix="rankzero-desk-") as folder:
        Path(folder).chmod(0o755)
        yield Desk(Path(folder))


def test_root_and_user_build_the_same_bytes(desk: Desk) -> None:
    code, planned, said = desk.image("--check", "--diff", **desk.options())
    assert code == 0, said
    assert planned["changed"] and not planned["ref"]["present"] and not (desk.folder / "store").exists()
    assert "+build_args.WHO me" in said and "+rootfs " in said
    assert "isolation chroot" in " ".join(planned["way"]["reasons"])
    code, first, said = desk.image("-vvv", **desk.options())
    assert code == 0, said
    assert {**first["ref"], "digest": None, "present": False} == planned["ref"]
    image = first["files"]["sqsh"]
    assert desk.read(image, "made") == "me 18\n" and desk.read(image, "hello.txt") == "hello\n"
    assert "GREETING=hello\n" in desk.read(image, "etc/environment")
    listed = subprocess.run(["unsquashfs", "-lls", image], capture_output=True, text=True, check=True).stdout
    assert "squashfs-root/run/secrets" not in listed and "root/root" in listed
    # What a secret holds is in nothing that was said or kept.
    assert "s3cret-token-value" not in said + (Path(image).parent / "image.json").read_text()
    assert b"s3cret-token-value" not in Path(image).read_bytes()

    # The same again: nothing is started, which also a machine without any of the tools can tell.
    code, again, said = desk.image(**desk.options(engine="podman"))
    assert code == 0 and not again["changed"], said

    # An ordinary user, another store, another day.
    own = desk.folder / "home" / "store"
    # The context is there: a file that root's Ansible sends over a local connection, a user could not have.
    shutil.copytree(desk.folder / "store" / "code", own / "code")
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(desk.folder / "home")], check=True)
    (desk.folder / "token").chmod(0o644)
    work = desk.folder / "home" / "work"
    code, users, said = desk.image(user=USER, **desk.options(store_root=str(own), work_dir=str(work)))
    assert code == 0, said
    assert users["changed"] and users["image"]["way"]["rootless"]
    assert users["ref"]["digest"] == first["ref"]["digest"] and users["ref"]["key"] == first["ref"]["key"]
    assert not list(work.iterdir()), "nothing is left of a rootless build"


def test_what_changed_is_told_and_a_failing_step_shows_its_last_lines(desk: Desk) -> None:
    (desk.context / "hello.txt").write_text("bye\n")
    code, planned, said = desk.image("--check", **desk.options(build_args={"WHO": "you"}))
    assert code == 0, said
    assert planned["changes"] == ["build_args.WHO: me -> you", "context/hello.txt: changed"]
    desk.write("RUN bash -c 'cat /run/secrets/token; for n in {1..40}; do echo line $n; done; exit 3'")
    code, failed, said = desk.image(**desk.options())
    assert code == 2 and failed["msg"].startswith("containerfile: failed at STEP ")
    assert "line 40" in failed["msg"] and "line 1\n" not in failed["msg"] and "exit status 3" in failed["msg"]
    assert "s3cret-token-value" not in said
    code, _refused, said = desk.image(**desk.options(x_request={"text": "FROM scratch"}))
    assert code == 2 and "x_request" in said


def test_a_base_that_cannot_be_reached_is_told(desk: Desk) -> None:
    (desk.context / "Containerfile").write_text("FROM registry.invalid/debian:12\nRUN true\n")
    options = desk.options(secrets={}, build_args={})
    del options["rootfs"]
    code, failed, said = desk.image(**options)
    assert code == 2, said
    assert (
        "the registry of a base image cannot be reached from" in failed["msg"]
        and "reference: oci:FOLDER" in failed["msg"]
    )


def test_an_oci_layout_that_buildah_made_is_the_image_again(desk: Desk) -> None:
    """What an engine wrote is read as it lies, without one."""
    storage = [f"--root={desk.folder}/b/root", f"--runroot={desk.folder}/b/run", "--storage-driver=vfs"]
    run = ["unshare", "--mount", "buildah", *storage]
    (desk.folder / "b").mkdir()
    (desk.folder / "b" / "file").write_text("content\n")
    (desk.folder / "b" / "Containerfile").write_text("FROM scratch\nENV A=b\nCOPY file /usr/file\n")
    subprocess.run(
        [*run, "bud", "--isolation=chroot", "-t", "x", str(desk.folder / "b")], check=True, capture_output=True
    )
    subprocess.run([*run, "push", "x", f"oci:{desk.folder}/b/layout:v1"], check=True, capture_output=True)
    store = str(desk.folder / "b" / "store")
    code, made, said = desk.image(
        reference=f"oci:{desk.folder}/b/layout:v1", store_root=store, formats=["sqsh", "sif", "oci"]
    )
    assert code == 0, said
    assert desk.read(made["files"]["sqsh"], "usr/file") == "content\n" and made["image"]["environment"]["A"] == "b"
    config = json.loads(Path(made["files"]["oci"], "config.json").read_text())
    assert "A=b" in config["process"]["env"] and Path(made["files"]["oci"], "rootfs/usr/file").exists()


def test_a_killed_build_leaves_nothing_that_counts(desk: Desk) -> None:
    (desk.context / "hello.txt").write_text("hello\n")
    desk.write("RUN echo up > /up && sleep 60")
    work = desk.folder / "killed"
    play = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [{"rankzero.slurm.image": desk.options(work_dir=str(work))}],
        }
    ]
    (desk.folder / "killed.yml").write_text(json.dumps(play))
    command = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "killed.yml"]
    command += ["-e", "ansible_python_interpreter=/usr/bin/python3"]
    process = subprocess.Popen(
        command, cwd=desk.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not any("STEP 5" in log.read_text() for log in work.glob("*/*/log")):
        assert time.monotonic() < deadline and process.poll() is None, "the build did not get as far"
        time.sleep(0.1)
    os.killpg(process.pid, 9)
    process.wait()
    store = desk.folder / "store" / "images"
    (unfinished,) = store.glob(".*.tmp")
    # The module goes on without Ansible. Its number is in the name, and what it started is of its group.
    os.killpg(os.getpgid(int(unfinished.name.split("-")[-2])), 9)
    desk.write("RUN true")
    code, made, said = desk.image(**desk.options(work_dir=str(work)))
    assert code == 0 and made["changed"], said
    assert not list(store.glob(".*.tmp"))
    assert not list(work.iterdir())
