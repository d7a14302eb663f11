# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers become a tree, and the tree one canonical form."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image import layers, squash
from ansible_collections.rankzero.slurm.plugins.module_utils.image.canonical import (
    EPOCH,
    canonical,
    environment,
    settings,
    write,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.image.engine import oci_layout


def layer(path: Path, *entries: tuple[str, str | bytes | None] | tarfile.TarInfo) -> str:
    """A tar file: (name, text), (name/, None) for a folder, (name, `-> target`) for a link; or a member as it is."""
    with tarfile.open(path, "w") as out:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                out.addfile(entry)
                continue
            name, content = entry
            info = tarfile.TarInfo(name.rstrip("/"))
            info.mtime = 1_600_000_000
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o750
                out.addfile(info)
            elif isinstance(content, str) and content.startswith("-> "):
                info.type, info.linkname = tarfile.SYMTYPE, content[3:]
                out.addfile(info)
            else:
                data = content.encode() if isinstance(content, str) else content
                info.size, info.mode = len(data), 0o640
                out.addfile(info, io.BytesIO(data))
    return str(path)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def shown(tree: layers.Tree) -> dict[str, str]:
    """Path -> content, `-> target`, or `/`."""
    contents = {}
    for path, node in tree.nodes.items():
        if node.open:
            with node.open() as stream:
                contents[path] = stream.read().decode()
        else:
            contents[path] = f"-> {node.target}" if node.kind == "l" else "/"
    return contents


def test_an_upper_layer_adds_replaces_and_removes(tmp_path: Path) -> None:
    lower = layer(
        tmp_path / "1", ("./a/", None), ("./a/one", "1"), ("./a/two", "2"), ("./b/", None), ("./b/x", "x"),
        ("c/", None), ("c/deep/", None), ("c/deep/y", "y"), ("file", "f"), ("lib/", None), ("usr-lib", "-> lib"),
    )  # fmt: skip
    upper = layer(
        tmp_path / "2", ("a/.wh.two", ""), ("a/one", "new"), ("b/.wh..wh..opq", ""), ("b/z", "z"), (".wh.c", ""),
        ("file/", None), ("file/inside", "i"), ("usr-lib/so", "s"), special("a/again", tarfile.LNKTYPE, "a/one"),
        special("dev/null", tarfile.CHRTYPE),
    )  # fmt: skip
    tree = layers.of_archives([lower, upper], str(tmp_path))
    assert shown(tree) == {
        "a": "/", "a/one": "new", "a/again": "new", "b": "/", "b/z": "z", "file": "/", "file/inside": "i",
        "lib": "/", "usr-lib": "-> lib", "lib/so": "s",
    }  # fmt: skip
    assert tree.skipped == 1


def test_nothing_of_an_archive_lies_outside(tmp_path: Path) -> None:
    tree = layers.of_archives(
        [layer(tmp_path / "1", ("../../up", "u"), ("/abs", "a"), ("out", "-> ../../etc"), ("out/x", "x"))], ""
    )
    assert shown(tree) == {"up": "u", "abs": "a", "out": "-> ../../etc", "etc/x": "x"}
    with pytest.raises(RankzeroError, match="is a loop of links"):
        layers.of_archives([layer(tmp_path / "2", ("a", "-> b"), ("b", "-> a"), ("a/x", "x"))], "")
    with pytest.raises(RankzeroError, match="which is in none of its layers"):
        layers.of_archives([layer(tmp_path / "3", special("a", tarfile.LNKTYPE, "gone"))], "")
    (tmp_path / "4").write_bytes(b"no tar at all" * 100)
    with pytest.raises(RankzeroError, match="is damaged"):
        layers.of_archives([str(tmp_path / "4")], "")


@pytest.mark.parametrize("way", ["a file before its parent is a link", "a link where the image's own files go"])
def test_no_file_is_written_through_a_link_of_the_image(tmp_path: Path, way: str) -> None:
    """mksquashfs wants the tree as a folder: this is where an image could write elsewhere."""
    outside, work = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    work.mkdir()
    members = [("etc", f"-> {outside}")] if way.startswith("a link") else [("a/x", "x"), ("a", f"-> {outside}")]
    tree = layers.of_archives([layer(tmp_path / "1", *members)], str(work))
    if way.startswith("a link"):
        with pytest.raises(RankzeroError, match="/etc must be a folder in the image"):
            canonical(tree, {})
        tree.nodes["etc/hosts"] = layers.Node("f", open=lambda: io.BytesIO(b""))
        with pytest.raises(RankzeroError, match="lies below 'etc'"):
            squash._unpack(tree, str(work / "tree"))
    else:
        squash._unpack(canonical(tree, {}), str(work / "tree"))
        assert (work / "tree" / "a").is_symlink() and shown(tree) == {"a": f"-> {outside}"}
    assert list(outside.iterdir()) == []


def test_a_layer_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "ALWAYS_FITS", 1 << 20)
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(8 << 20)))
    with pytest.raises(RankzeroError, match="an archive of its size"):
        layers.of_archives([str(tmp_path / "bomb")], str(tmp_path))


def layout(folder: Path, *tars: str, **config: Any) -> Path:
    oci_layout(tars, config, str(folder))
    return folder


def test_an_oci_layout_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    one = layout(tmp_path / "one", layer(tmp_path / "l", ("usr/", None), ("usr/x", "x")), Env=["A=b"], Cmd=["run"])
    tree = layers.of_image(str(one), str(tmp_path))
    assert shown(tree) == {"usr": "/", "usr/x": "x"} and tree.config["Env"] == ["A=b"]
    assert settings(tree.config) == {"cmd": ["run"]}
    archive = tmp_path / "one.tar"
    with tarfile.open(archive, "w") as out:
        out.add(one, ".")
    (tmp_path / "w").mkdir()
    assert shown(layers.of_image(str(archive), str(tmp_path / "w"))) == {"usr": "/", "usr/x": "x"}
    blob = max((one / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    blob.chmod(0o600)
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    with pytest.raises(RankzeroError, match="is damaged: its content is not sha256:"):
        layers.of_image(str(one), str(tmp_path))
    blob.unlink()
    with pytest.raises(RankzeroError, match="incomplete"):
        layers.of_image(str(one), str(tmp_path))
    with pytest.raises(RankzeroError, match="not an image"):
        layers.of_image(str(tmp_path / "w"), str(tmp_path))


def test_of_several_images_of_a_layout_one_is_named(tmp_path: Path) -> None:
    several = layout(tmp_path / "one", layer(tmp_path / "l", ("usr/", None)))
    index = json.loads((several / "index.json").read_text())
    (first,) = index["manifests"]
    index["manifests"] = [{**first, "annotations": {"org.opencontainers.image.ref.name": tag}} for tag in ("v1", "v2")]
    (several / "index.json").write_text(json.dumps(index))
    assert shown(layers.of_image(str(several), "", "v2")) == {"usr": "/"}
    with pytest.raises(RankzeroError, match=r"holds 2 images .*v1, v2"):
        layers.of_image(str(several), "")
    with pytest.raises(RankzeroError, match=r"holds 0 images .*none at all"):
        layers.of_image(str(several), "", "v3")
    other = {**first, "platform": {"architecture": "riscv64"}}
    mine = {**first, "platform": {"architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)}}
    (several / "index.json").write_text(json.dumps({"manifests": [other, mine]}))
    assert shown(layers.of_image(str(several), "")) == {"usr": "/"}


def test_archives_of_docker_and_packed_layers(tmp_path: Path) -> None:
    plain = Path(layer(tmp_path / "l", ("usr/", None), ("usr/x", "x")))
    packed = tmp_path / "l.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    saved = tmp_path / "saved"
    saved.mkdir()
    shutil.copy(packed, saved / "layer.tar")
    (saved / "c.json").write_text('{"config": {"Env": ["A=1"]}}')
    (saved / "manifest.json").write_text('[{"Config": "c.json", "Layers": ["layer.tar"]}]')
    work = tmp_path / "work"
    work.mkdir()
    tree = layers.of_image(str(saved), str(work))
    assert shown(tree) == {"usr": "/", "usr/x": "x"} and tree.config == {"Env": ["A=1"]}
    (saved / "manifest.json").write_text("[{}, {}]")
    with pytest.raises(RankzeroError, match="saved holds 2 images"):
        layers.of_image(str(saved), str(work))


def test_zstd_is_unpacked_by_its_command_or_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = layer(tmp_path / "l", ("usr/", None))
    packed = tmp_path / "l.zst"
    if shutil.which("zstd"):
        subprocess.run(["zstd", "-q", plain, "-o", packed], check=True)
        assert shown(layers.of_archives([str(packed)], str(tmp_path))) == {"usr": "/"}
    packed.write_bytes(b"\x28\xb5\x2f\xfdrest")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RankzeroError, match="install package zstd"):
        layers.of_archives([str(packed)], str(tmp_path))


def stream(tree: layers.Tree, values: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    write(canonical(tree, values or {}), out)
    return out.getvalue()


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    entries = [("usr/", None), ("usr/bin", "-> x"), ("usr/b", "b"), ("a", "a")]
    noise = [
        ("etc/", None), ("etc/hostname", "builder17"), ("etc/resolv.conf", "nameserver 10.0.0.1"), ("dev/", None),
        ("dev/x", "x"), ("var/", None), ("var/log/", None), ("var/log/apt.log", "today"), ("run/", None),
        ("run/lock", ""), ("var/cache/", None), ("var/cache/ldconfig/", None), ("var/cache/ldconfig/aux-cache", "?"),
    ]  # fmt: skip
    folders = [(name, None) for name in ("etc/", "var/", "var/log/", "var/cache/", "var/cache/ldconfig/")]
    first = layers.of_archives([layer(tmp_path / "1", *entries, *folders)], "")
    second = layers.of_archives([layer(tmp_path / "2", *noise), layer(tmp_path / "3", *reversed(entries))], "")
    assert hashlib.sha256(stream(first)).digest() == hashlib.sha256(stream(second)).digest()
    assert stream(first) != stream(first, {"A": "b"})
    with tarfile.open(fileobj=io.BytesIO(stream(second))) as made:
        members = {member.name: member for member in made}
    assert {(member.mtime, member.uid, member.gid, member.uname) for member in members.values()} == {(EPOCH, 0, 0, "")}
    assert (members["usr"].mode, members["usr/b"].mode, members["tmp"].mode) == (0o750, 0o640, 0o1777)
    assert members["etc/hostname"].size == members["etc/resolv.conf"].size == 0
    assert {"dev", "proc", "sys", "run", "root", "var/tmp", "etc/hosts"} <= set(members)
    assert not {"dev/x", "run/lock", "var/log/apt.log"} & set(members)


def test_compiled_python_stays_valid_and_stale_stays_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", None)  # of pytest's own: compiled files lie beside their source here
    source = tmp_path / "root" / "m.py"
    source.parent.mkdir()
    source.write_text("VALUE = 1\n")
    os.utime(source, (1_700_000_000.5, 1_700_000_000.5))
    compiled = Path(py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP) or "")
    stale = compiled.with_name(compiled.name.replace("m.", "n."))
    (source.parent / "n.py").write_text("VALUE = 2\n")
    shutil.copy(compiled, stale)
    with tarfile.open(fileobj=io.BytesIO(stream(layers.of_folder(str(source.parent))))) as made:
        found = {name: made.extractfile(f"__pycache__/{name}").read() for name in (compiled.name, stale.name)}  # type: ignore[union-attr]
    assert int.from_bytes(found[compiled.name][8:12], "little") == EPOCH
    assert found[compiled.name][12:] == compiled.read_bytes()[12:]
    assert found[stale.name] == stale.read_bytes()


def test_the_environment_is_where_the_runtimes_look(tmp_path: Path) -> None:
    tree = layers.of_archives(
        [layer(tmp_path / "1", ("etc/", None), ("etc/environment", 'A="old"\nexport B=2\n# no\nbroken\n'))], "",
        {"Env": ["A=it's $HOME", "PATH=/bin", "bad-name=1"]},
    )  # fmt: skip
    values = environment(tree, {"C": "3"})
    assert values == {"A": "it's $HOME", "B": "2", "PATH": "/bin", "C": "3"}
    made = shown(canonical(tree, values))
    assert made["etc/environment"] == "A=it's $HOME\nB=2\nC=3\nPATH=/bin\n"
    script = made[".singularity.d/env/90-environment.sh"]
    done = subprocess.run(["bash", "-c", script + 'echo "$A|$B|$C"'], capture_output=True, text=True, check=True)
    assert done.stdout == "it's $HOME|2|3\n"
    with pytest.raises(RankzeroError, match="ENV A has several lines"):
        environment(layers.Tree(config={"Env": ["A=1\n2"]}), {})


def test_a_folder_is_read_as_it_lies(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "x").write_text("x")
    (tmp_path / "bin").symlink_to("usr")
    os.mkfifo(tmp_path / "pipe")
    tree = layers.of_folder(str(tmp_path))
    assert shown(tree) == {"usr": "/", "usr/x": "x", "bin": "-> usr"} and tree.skipped == 1
    assert tree.nodes["usr/x"].mtime <= time.time()
