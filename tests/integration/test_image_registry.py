# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module `image` with a real podman, and with a real registry that skopeo, podman and buildah ask."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.image import host
from ansible_collections.rankzero.slurm.plugins.module_utils.image.ensure import ensure_image
from tests.integration.image_desk import Desk
from tests.unpacked import Unavailable, programs

#: What the registry keeps of its user's password (bcrypt, of the few rounds that a test needs).
PASSWORD, HASH = "let-me-in", "$2y$04$CbvfXbigtBZoz5onscFQOuADZTdNSTYjHxvTsB0Hnwsu6xVVwex8a"
TOOLS = ("buildah", "skopeo", "openssl", "tar2sqfs", "unsquashfs")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the engines build as root here; a user's build: test_image.py"),
    pytest.mark.skipif(
        not all(shutil.which(name) for name in TOOLS), reason=f"one of {', '.join(TOOLS)} is not installed"
    ),
]


class Registry:
    """A registry of this test alone, on the loopback interface, which lets in who knows its password."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.name = f"localhost:{free.getsockname()[1]}"
        (folder / "users").write_text(f"student:{HASH}\n")
        (folder / "config.yml").write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}/blobs}}}}\n"
            f"http: {{addr: '{self.name}', tls: {{certificate: {folder}/cert, key: {folder}/key}}}}\n"
            f"auth: {{htpasswd: {{realm: test, path: {folder}/users}}}}\n"
        )
        certify = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        certify += f" -addext subjectAltName=DNS:localhost -keyout {folder}/key -out {folder}/cert"
        subprocess.run(["openssl", *certify.split()], check=True, capture_output=True)
        self.log = (folder / "log").open("wb")
        command = ["docker-registry", "serve", str(folder / "config.yml")]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("localhost", int(self.name[10:])), 1):
                break
            assert self.process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)

    def log_out(self) -> None:
        (self.folder / "auth.json").write_text("{}")

    def log_in(self) -> None:
        command = ["skopeo", "login", "--username", "student", "--password-stdin", self.name]
        subprocess.run(command, input=PASSWORD, text=True, check=True, capture_output=True)

    def take(self, layout: str, name: str) -> str:
        """Store an OCI layout under a name; its digest."""
        file = self.folder / "digest"
        command = ["skopeo", "copy", "--quiet", f"--digestfile={file}", f"oci:{layout}", f"docker://{self.name}/{name}"]
        subprocess.run(command, check=True, capture_output=True)
        return file.read_text().strip()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


@pytest.fixture(scope="module", autouse=True)
def tools() -> Iterator[None]:
    """podman and the registry are not installed: their packages start services."""
    try:
        found = programs("podman", "docker-registry")
    except Unavailable as error:
        pytest.skip(f"no podman and no registry here: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}:{found}")
        yield


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory(prefix="rankzero-desk-") as folder:
        yield Desk(Path(folder))


@pytest.fixture(scope="module")
def registry(desk: Desk) -> Iterator[Registry]:
    folder = desk.folder / "registry"
    folder.mkdir()
    started = Registry(folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            # What an administrator puts among the certificates of the system, and a user into her home.
            patch.setenv("SSL_CERT_FILE", str(folder / "cert"))
            patch.setenv("REGISTRY_AUTH_FILE", str(folder / "auth.json"))
            started.log_out()
            yield started
    finally:
        started.end()


@pytest.fixture(scope="module")
def layout(desk: Desk) -> str:
    """An image with two layers, as an OCI layout."""
    made = desk.folder / "made"
    made.mkdir()
    (made / "file").write_text("content\n")
    (made / "Containerfile").write_text("FROM scratch\nENV A=b\nCOPY file /usr/file\nCOPY file /usr/other\n")
    engine = ["unshare", "--mount", "buildah", f"--root={made}/root", f"--runroot={made}/run", "--storage-driver=vfs"]
    subprocess.run([*engine, "bud", "--layers", "-t", "localhost/x", str(made)], check=True, capture_output=True)
    subprocess.run([*engine, "push", "localhost/x", f"oci:{made}/layout:v1"], check=True, capture_output=True)
    return f"{made}/layout:v1"


@pytest.mark.more
def test_podman_builds_what_buildah_builds(desk: Desk) -> None:
    desk.write("RUN echo one > /one", "RUN python3 -c 'import os; os.remove(\"/one\")' && echo two > /two")
    stores = {engine: str(desk.folder / f"store-{engine}") for engine in ("buildah", "podman")}
    made = {}
    for engine, store in stores.items():
        code, made[engine], said = desk.image(**desk.options(engine=engine, store_root=store))
        assert code == 0, said
        assert made[engine]["image"]["way"]["engine"] == shutil.which(engine)
    assert made["podman"]["ref"]["digest"] == made["buildah"]["ref"]["digest"]
    assert made["podman"]["ref"]["key"] == made["buildah"]["ref"]["key"]
    desk.write("RUN bash -c 'echo before; exit 3'")
    code, failed, said = desk.image(**desk.options(engine="podman", store_root=stores["podman"]))
    assert code == 2 and "containerfile: failed at STEP" in failed["msg"] and "before" in failed["msg"], said


def test_an_image_comes_from_a_registry(desk: Desk, registry: Registry, layout: str) -> None:
    registry.log_out()
    reference = f"{registry.name}/team/x:v1"
    code, refused, said = desk.image(name="x", reference=reference, store_root=str(desk.folder / "store"))
    assert code == 2 and "the registry refuses; log in on " in refused["msg"], said
    registry.log_in()
    digest = registry.take(layout, "team/x:v1")
    code, unknown, said = desk.image(
        name="x", reference=f"{registry.name}/team/x:v2", store_root=str(desk.folder / "store")
    )
    assert code == 2 and "the registry does not have that image" in unknown["msg"], said

    exact = f"{registry.name}/team/x@{digest}"
    options = {"name": "x", "reference": exact, "store_root": str(desk.folder / "store")}
    code, planned, said = desk.image("--check", **options)
    assert code == 0 and planned["changed"] and not planned["ref"]["present"], said
    code, made, said = desk.image(**options)
    assert code == 0 and made["ref"]["key"] == planned["ref"]["key"], said
    assert made["image"]["way"]["fetch"] == shutil.which("skopeo") and made["image"]["environment"]["A"] == "b"
    assert desk.read(made["files"]["sqsh"], "usr/file") == desk.read(made["files"]["sqsh"], "usr/other") == "content\n"
    # What was built is what an image of the layout itself is.
    code, local, said = desk.image(name="x", reference=f"oci:{layout}", store_root=str(desk.folder / "store-local"))
    assert code == 0 and local["ref"]["digest"] == made["ref"]["digest"], said
    code, again, said = desk.image(**options)
    assert code == 0 and not again["changed"], said


@pytest.mark.parametrize("tool", ["buildah", "podman"])
def test_engines_ask_the_registry_where_there_is_no_skopeo(
    desk: Desk, registry: Registry, layout: str, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.log_in()
    digest = registry.take(layout, "team/x:v1")
    monkeypatch.setattr(host, "PACKAGES", {name: host.PACKAGES[name] for name in (tool, "tar2sqfs")})
    options = {"store_root": str(desk.folder / f"store-by-{tool}"), "state": "present", "formats": ["sqsh"]}
    made = ensure_image({**options, "name": "x", "reference": f"{registry.name}/team/x@{digest}"}, {})
    assert made["image"]["way"]["fetch"] == shutil.which(tool)
    assert desk.read(made["files"]["sqsh"], "usr/other") == "content\n"


def test_a_containerfile_starts_from_an_image_of_a_registry(desk: Desk, registry: Registry, layout: str) -> None:
    registry.log_in()
    digest = registry.take(layout, "team/x:v1")
    context = desk.folder / "from"
    context.mkdir()
    (context / "more").write_text("more\n")
    (context / "Containerfile").write_text(f"FROM {registry.name}/team/x@{digest}\nCOPY more /usr/more\n")
    code, made, said = desk.image(name="from", containerfile=str(context), store_root=str(desk.folder / "store"))
    assert code == 0, said
    assert [desk.read(made["files"]["sqsh"], f"usr/{name}") for name in ("more", "file")] == ["more\n", "content\n"]
