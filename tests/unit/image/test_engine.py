# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine is asked, and what its failures mean. It is played; a real one: tests/integration/test_image.py."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image.ensure import ensure_image
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import digest, read_tree
from tests.unit.image.conftest import dir_image

Ensure = Callable[..., dict[str, Any]]
TEXT = "FROM base\nARG WHO\nCOPY app /app\nRUN --mount=type=secret,id=pip true\n"

pytestmark = pytest.mark.skipif(
    not shutil.which("tar2sqfs"), reason="tar2sqfs is not installed (package squashfs-tools-ng)"
)


def archived(folder: Path, target: Path) -> dict[str, Any]:
    """The request for a Containerfile with the files of a folder as its context."""
    entries = read_tree(str(folder))
    with tarfile.open(target, "w:gz") as out:
        for entry in entries:
            out.add(folder / entry.path, entry.path)
    assert digest(entries)
    return {"text": TEXT, "context": [[entry.path, f"{entry.kind} {entry.sha256}"] for entry in entries]}


def a_layer(**files: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            made.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "run.sh").write_text("echo\n")
    (folder / "app" / "run.sh").chmod(0o755)
    (folder / "app" / "text").write_text("text\n")
    return folder


def test_a_build_from_context_to_image(
    ensure: Ensure, buildah: Path, rootfs: Path, context: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret-value\n")
    dir_image(buildah / "image", a_layer(made="yes"), Env=["A=b"], WorkingDir="/app")
    request = archived(context, tmp_path / "context.tar.gz")
    options = {"rootfs": str(rootfs), "build_args": {"WHO": "me"}, "secrets": {"pip": str(secret)}, "target": "0"}
    first = ensure(request=request, **options)
    assert (first["needs"], first["changed"], first["ref"]["present"]) == ("context", False, False)
    assert not (buildah / "asked").exists()
    made = ensure(request={**request, "archive": str(tmp_path / "context.tar.gz")}, **options)
    assert made["changed"] and made["image"]["environment"] == {"A": "b"}
    assert made["image"]["settings"] == {"workdir": "/app"}
    asked = (buildah / "asked").read_text()
    pull, tag, build, push = asked.splitlines()
    assert pull.endswith("pull --quiet oci:base") and tag.endswith("tag 1c5646c686a3 localhost/base")
    for word in ("bud", "--isolation=chroot", "--network=host", "--pull-never", "--target=0", "--build-arg=WHO=me"):
        assert word in build.split()
    assert f"--secret=id=pip,src={secret}" in build.split() and "s3cret-value" not in asked
    assert "--disable-compression" in push
    listed = (buildah / "context").read_text()
    assert "-rwxr-xr-x" in listed.split("run.sh")[0].splitlines()[-1]
    assert "-rw-r--r--" in listed.split(" text")[0].splitlines()[-1]
    asked_before = asked
    assert not ensure(request=request, **options)["changed"]
    assert (buildah / "asked").read_text() == asked_before
    for path in (tmp_path / "store").rglob("*.json"):
        assert "s3cret-value" not in path.read_text()


UNREACHABLE = """\
STEP 1/2: FROM registry.invalid/debian:12
Trying to pull registry.invalid/debian:12...
Error: creating build container: initializing source docker://registry.invalid/debian:12: pinging container registry \
registry.invalid: Get "https://registry.invalid/v2/": dial tcp: lookup registry.invalid: no such host
"""
SHORT = (
    'STEP 1/1: FROM debian\nError: creating build container: short-name "debian" did not resolve to an alias and no \
unqualified-search registries are defined in "/etc/containers/registries.conf"\n'
)
FAILED = "STEP 2/3: RUN make s3cret-value\n" + "".join(f"line {number}\n" for number in range(60)) + (
    "make: *** [all] s3cret-value Error 2\nError: building at STEP \"RUN make\": while running runtime: exit status 2\n"
)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (UNREACHABLE, "the registry of a base image cannot be reached from "),
        (SHORT, "the base image debian has no registry in its name, and this host has no default registry"),
        (
            "Error: initializing source docker://r.invalid/x: unauthorized: authentication required\n",
            "containerfile: the registry refuses; log in on ",
        ),
        ("Error: reading manifest 1 in r.invalid/x: manifest unknown\n", "the registry does not have that image"),
        ("STEP 2/2: RUN x\nwrite /x: no space left on device\n", "name another folder with work_dir"),
        (FAILED, "containerfile: failed at STEP 2/3: RUN make ******. Its last lines:\nline 37\n"),
    ],
)
def test_what_a_failure_means(
    ensure: Ensure, buildah: Path, rootfs: Path, tmp_path: Path, said: str, message: str
) -> None:
    (tmp_path / "secret").write_text("s3cret-value\n")
    (buildah / "say").write_text(said)
    (buildah / "rc").write_text("125")
    with pytest.raises(RankzeroError) as caught:
        ensure(request={"text": "FROM scratch\nRUN make\n"}, secrets={"x": str(tmp_path / "secret")})
    assert message in caught.value.message and "s3cret-value" not in caught.value.message
    assert said.splitlines()[-1].replace("s3cret-value", "******") in caught.value.message
    assert not list((tmp_path / "store" / "images").glob("[0-9a-f]*"))


def test_a_secret_that_is_not_there_is_named(ensure: Ensure, tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match=r"secrets.pip: \S+gone is not a file on \S+ that this user may read"):
        ensure(request={"text": "FROM scratch\n"}, secrets={"pip": str(tmp_path / "gone")})


MMDEBSTRAP = """\
#!/bin/bash
printf '%s\\n' "$@" >>{folder}/asked
cat {folder}/say 2>/dev/null
for word in "$@"; do case $word in *.tar) tar -cf "$word" -C {root} . ;; esac; done
exit "$(cat {folder}/rc 2>/dev/null || echo 0)"
"""


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("", ""),
        ("E: The repository does not have a Release file.\n", "Check the name of the suite"),
        ("E: Unable to locate package pyton3\n", "lacks a package of it. Check packages."),
        ("E: Failed to fetch http://a.invalid/x  Could not resolve 'a.invalid'\n", "(rootfs)"),
    ],
)
def test_a_debian_suite(
    ensure: Ensure, buildah: Path, rootfs: Path, said: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (buildah / "mmdebstrap").write_text(MMDEBSTRAP.format(folder=buildah, root=rootfs))
    (buildah / "mmdebstrap").chmod(0o755)
    (buildah / "say").write_text(said)
    options = {"suite": "bookworm", "packages": ["python3", "git"], "mirror": "copy:///debian"}
    if message:
        (buildah / "rc").write_text("1")
        with pytest.raises(RankzeroError) as caught:
            ensure(**options)
        assert caught.value.message.startswith("suite: bookworm: ") and message in caught.value.message
        assert said.strip() in caught.value.message
        return
    made = ensure(**options)
    asked = (buildah / "asked").read_text().splitlines()
    assert "--variant=minbase" in asked and "--include=git,python3" in asked
    assert asked[-1] == "deb copy:///debian bookworm main" and asked[-3] == "bookworm"
    # As a base it is an image of its own, and made once.
    dir_image(buildah / "image", a_layer(made="yes"))
    (buildah / "asked").unlink()
    built = ensure(request={"text": "FROM base\n"}, **options)
    assert built["changed"] and built["ref"]["key"] != made["ref"]["key"]
    assert "--variant=minbase" not in (buildah / "asked").read_text()


FETCHERS = {
    "skopeo": 'for last in "$@"; do :; done; cp -r {folder}/image "${{last#dir:}}"\n',
    "enroot": 'cp {folder}/image.sqsh "$3"\n',
}


@pytest.mark.parametrize("tool", ["skopeo", "enroot", "buildah"])
def test_an_image_of_a_registry(
    ensure: Ensure, buildah: Path, rootfs: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dir_image(buildah / "image", a_layer(made="yes"))
    shutil.copy(ensure(rootfs=str(rootfs))["files"]["sqsh"], buildah / "image.sqsh")
    if tool in FETCHERS:
        (buildah / tool).write_text(
            f'#!/bin/bash\necho "$*" >>{buildah}/asked\n' + FETCHERS[tool].format(folder=buildah)
        )
        (buildah / tool).chmod(0o755)
    chosen = {tool: str(buildah / tool)}
    monkeypatch.setattr(
        "ansible_collections.rankzero.slurm.plugins.module_utils.image.host.PACKAGES",
        dict.fromkeys((tool, "tar2sqfs"), "-"),
    )
    made = ensure(reference="docker://registry.invalid:5000/team/torch:1")
    assert made["changed"] and made["image"]["way"]["fetch"] == chosen[tool]
    assert "is a tag, which its registry may move unnoticed" in made["warnings"][0]
    exact = ensure(check_mode=True, reference=f"registry.invalid/torch@sha256:{'0' * 64}")
    assert "warnings" not in exact
    asked = (buildah / "asked").read_text()
    named = {
        "skopeo": "copy --quiet docker://registry.invalid:5000/team/torch:1 dir:",
        "enroot": "docker://registry.invalid:5000#team/torch:1",
        "buildah": "pull --quiet registry.invalid:5000/team/torch:1",
    }
    assert named[tool] in asked


def test_the_module_hides_nothing_of_its_request(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="image: give one of containerfile"):
        ensure_image({"store_root": str(tmp_path), "state": "present"}, {})
