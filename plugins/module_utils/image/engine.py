# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the tools that make a tree of layers: mmdebstrap, buildah or podman, skopeo or enroot, in a temporary folder.

The engine's storage is in that folder too, so that no build depends on an earlier one and nothing is left behind. As
root, the commands run in a separate mount namespace: the mounts of a killed command end with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import last_text, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.image import debian
from ansible_collections.rankzero.slurm.plugins.module_utils.image.canonical import EPOCH
from ansible_collections.rankzero.slurm.plugins.module_utils.image.containerfile import BASE
from ansible_collections.rankzero.slurm.plugins.module_utils.image.host import Way, search_path
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import Recipe

# The number of last lines of a failed command that are shown.
LAST_LINES = 25
_NAME = "localhost/rankzero"
# Messages of engines and skopeo for a registry that cannot be reached (containers/image).
_UNREACHABLE = re.compile(
    r"no such host|connection refused|i/o timeout|network is unreachable|no route to host|context deadline exceeded|"
    r"TLS handshake timeout|Temporary failure in name resolution|server misbehaving|proxyconnect"
)
_REGISTRY = re.compile(r"registry|pinging|docker://|Error: .*(creating build|initializing source)")
_REFUSED = re.compile(r"unauthorized|authentication required|denied: |403 \(Forbidden\)")
_UNKNOWN = re.compile(r"manifest unknown|name unknown|not found: manifest|404 \(Not Found\)")
_SHORT = re.compile(r'short-name "([^"]+)" did not resolve')


@dataclass(frozen=True)
class Builder:
    """`work`: a folder for this build only. `secrets`: id -> file on this host; their contents are never shown."""

    way: Way
    work: str
    secrets: Mapping[str, str]

    def bootstrap(self, made: Recipe) -> str:
        """The root file system of a Debian suite, as a tar file. Raises RankzeroError."""
        target = os.path.join(self.work, "base.tar")
        words = [str(self.way.bootstrap), "--variant=minbase", "--format=tar", "--quiet"]
        if made.packages:
            words.append(f"--include={','.join(made.packages)}")
        mirror = made.mirror or ""
        if not mirror and shutil.which("apt-get", path=search_path()):
            mirror = debian.pick_mirror(self._ask(debian.TARGETS))
            words += [f"--aptopt={option}" for option in debian.transport_options(self._ask(debian.DUMP))]
        # The transport options of this machine are of no use on a node.
        words.append('--customize-hook=rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap')
        source = [f"deb {mirror} {made.suite} main"] if mirror else []
        code, output = self._run([*words, str(made.suite), target, *source])
        if code:
            cause, sentence = debian.why_failed(output)
            hint = {
                "no-suite": "Check the name of the suite, or name an archive that has it with mirror.",
                "no-package": "Check packages.",
                "unreachable": "Name an archive that this host reaches (mirror), or provide a root file system "
                "(rootfs).",
            }.get(cause, "")
            raise RankzeroError(f"suite: {made.suite}: {sentence}. {hint}\n{_last(output)}")
        return target

    def build(self, made: Recipe, context: str | None, base: Sequence[str], config: Mapping[str, object]) -> str:
        """Build the Containerfile; `base`: the layers of what it calls `base`. Returns a `dir:` folder.

        Raises RankzeroError.
        """
        engine = self._engine()
        if base:
            oci_layout(base, config, os.path.join(self.work, BASE))
            # An engine derives the image's name from the path, and not every path is valid: use a relative one.
            identity = self._must([*engine, "pull", "--quiet", f"oci:{BASE}"], "the base").splitlines()[-1].strip()
            self._must([*engine, "tag", identity, f"localhost/{BASE}"], "the base")
        path = os.path.join(self.work, "Containerfile")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(made.text or "")
        words = [
            *engine,
            "build" if self._is("podman") else "bud",
            f"--isolation={self.way.isolation}",
            "--network=host",
        ]
        words += ["--pull=missing" if self._is("podman") else "--pull-never" if base else "--pull", "--layers=false"]
        words += ["--no-cache", f"--file={path}", f"--tag={_NAME}", "--format=oci"]
        words += [f"--target={made.target}"] if made.target else []
        words += [f"--build-arg={name}={value}" for name, value in made.build_args]
        words += [f"--secret=id={name},src={self.secrets[name]}" for name in made.secrets]
        empty = os.path.join(self.work, "empty")
        os.makedirs(empty, exist_ok=True)
        code, output = self._run([*words, context or empty])
        if code:
            raise RankzeroError(self._why(output))
        return self._export(engine)

    def fetch(self, reference: str) -> str:
        """Fetch an image from a registry. Returns a folder for `layers.of_image`, or a .sqsh (enroot).

        Raises RankzeroError.
        """
        name = re.sub(r"^docker://", "", reference)
        tool = str(self.way.fetch)
        if self._is("enroot", tool):
            target = os.path.join(self.work, "fetched.sqsh")
            # enroot separates registry and image by a hash sign.
            host, slash, rest = name.partition("/")
            named = f"{host}#{rest}" if slash and ("." in host or ":" in host) else name
            self._must([tool, "import", "-o", target, f"docker://{named}"], reference)
            return target
        if self._is("skopeo", tool):
            target = os.path.join(self.work, "fetched")
            self._must([tool, "copy", "--quiet", f"docker://{name}", f"dir:{target}"], reference)
            return target
        engine = self._engine(tool)
        self._must([*engine, "pull", "--quiet", name], reference)
        self._must([*engine, "tag", name, _NAME], reference)
        return self._export(engine)

    def clear(self) -> None:
        """Remove the storage of a rootless engine: its files have other owners, so this needs its user namespace."""
        storage = os.path.join(self.work, "storage")
        if self.way.rootless and self.way.engine and os.path.isdir(storage):
            words = [self.way.engine, "unshare", "rm", "-rf", storage]
            children.run(words, self._environment())

    def _export(self, engine: Sequence[str]) -> str:
        target = os.path.join(self.work, "exported")
        # Uncompressed layers, as they are temporary. podman writes them uncompressed into a folder anyway.
        plain = [] if self._is("podman", engine[0]) else ["--disable-compression"]
        self._must([*engine, "push", "--quiet", *plain, "--format=oci", _NAME, f"dir:{target}"], "the image")
        return target

    def _engine(self, tool: str | None = None) -> list[str]:
        for place in ("storage/root", "storage/run"):
            os.makedirs(os.path.join(self.work, place), exist_ok=True)
        # podman limits the runroot to 50 characters; all commands run in the folder `work`.
        where = [f"--root={self.work}/storage/root", "--runroot=storage/run"]
        return [tool or str(self.way.engine), *where, f"--storage-driver={self.way.storage or 'vfs'}"]

    def _is(self, name: str, tool: str | None = None) -> bool:
        return os.path.basename(tool or str(self.way.engine)) == name

    def _ask(self, words: Sequence[str]) -> str:
        done = children.run(words, self._environment())
        return done.stdout if done.returncode == 0 else ""

    def _must(self, words: Sequence[str], what: str) -> str:
        code, output = self._run(words)
        if code:
            raise RankzeroError(self._why(output, what))
        return output

    def _run(self, words: Sequence[str]) -> tuple[int, str]:
        """(exit code, the last lines of the output), without the contents of the secrets."""
        log = os.path.join(self.work, "log")
        unshare = shutil.which("unshare", path=search_path())
        wrapped = (
            [unshare, "--mount", "--propagation=private", "--", *words] if unshare and not self.way.rootless else words
        )
        with open(log, "wb") as stream:
            # pylint: disable-next=ansible-bad-function
            done = subprocess.run(
                list(wrapped),
                stdin=subprocess.DEVNULL,
                cwd=self.work,
                stdout=stream,
                stderr=stream,
                env=self._environment(),
                check=False,
            )
        return done.returncode, self._hidden(last_text(log))

    def _hidden(self, text: str) -> str:
        for path in self.secrets.values():
            for line in text_of(path, errors="replace").splitlines():
                if len(line.strip()) > 3:
                    text = text.replace(line.strip(), "******")
        return text

    def _environment(self) -> dict[str, str]:
        run = os.path.join(self.work, "run")
        os.makedirs(run, mode=0o700, exist_ok=True)
        allowed = child_environment(os.environ, "CONTAINERS_", "BUILDAH_", "STORAGE_", "REGISTRY_", "DOCKER_")
        environment = {**allowed, "PATH": search_path(), "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8"}
        environment.update({"TMPDIR": self.work, "XDG_RUNTIME_DIR": run})
        environment.pop("BUILDAH_ISOLATION", None)
        return environment

    def _why(self, output: str, what: str = "containerfile") -> str:
        """The cause of an engine's failure, with its last lines."""
        last = _last(output)
        short = _SHORT.search(output)
        if short:
            return (
                f"{what}: the base image {short[1]} has no registry in its name, and this host has no "
                f"default registry. Write "
                f"REGISTRY/NAME:TAG, or FROM {BASE} with suite, rootfs or reference.\n{last}"
            )
        if _UNREACHABLE.search(output) and _REGISTRY.search(output):
            return (
                f"{what}: the registry of a base image cannot be reached from {platform.node()}. Build where it can "
                f"be, or use FROM {BASE} with suite, rootfs or an OCI layout (reference: oci:FOLDER).\n{last}"
            )
        if _REFUSED.search(output):
            return f"{what}: the registry refuses; log in on {platform.node()} (skopeo login, podman login).\n{last}"
        if _UNKNOWN.search(output):
            return f"{what}: the registry does not have that image.\n{last}"
        if "no space left on device" in output.lower():
            return f"{what}: no space left in {self.work}; name another folder with work_dir.\n{last}"
        step = re.findall(r"^STEP .*$", output, re.MULTILINE)
        return f"{what}: failed" + (f" at {step[-1]}" if step else "") + f". Its last lines:\n{last}"


def _last(text: str) -> str:
    return "\n".join(text.splitlines()[-LAST_LINES:])


def oci_layout(layers: Sequence[str], config: Mapping[str, object], folder: str) -> None:
    """Write an OCI layout of uncompressed tar files, hard-linked if possible (OCI image layout). Raises OSError."""
    blobs = os.path.join(folder, "blobs", "sha256")
    os.makedirs(blobs)

    def put(data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as stream:
            stream.write(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    described: list[dict[str, object]] = []
    for layer in layers:
        digest = file_sha256(layer)
        place = os.path.join(blobs, digest)
        if not os.path.exists(place):
            try:
                os.link(layer, place)
            except OSError:
                shutil.copyfile(layer, place)
        described.append({"digest": f"sha256:{digest}", "size": os.path.getsize(layer)})
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    prefix = "application/vnd.oci.image"
    own = {
        "architecture": machine,
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [descriptor["digest"] for descriptor in described]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{prefix}.manifest.v1+json",
        "config": {"mediaType": f"{prefix}.config.v1+json", **put(json.dumps(own).encode())},
        "layers": [{"mediaType": f"{prefix}.layer.v1.tar", **descriptor} for descriptor in described],
    }
    listed = {"mediaType": f"{prefix}.manifest.v1+json", **put(json.dumps(manifest).encode())}
    for name, document in (
        ("index.json", {"schemaVersion": 2, "manifests": [listed]}),
        ("oci-layout", {"imageLayoutVersion": "1.0.0"}),
    ):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as text:
            json.dump(document, text)
