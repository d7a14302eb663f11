# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datasets by rsync, from an object store and from the hub: the real programs, and servers of this machine.

rsync goes through a real sshd and to a real daemon; rclone is real, its bucket a folder; the hub's library is real, and
asks the stand-in for the hub.
"""

from __future__ import annotations

import getpass
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.ensure import ensure_dataset
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources import programs
from tests import hub

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
BIG = random.Random(11).randbytes(6_000_000)
PROGRAM = """
import json, sys
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.ensure import ensure_dataset
ensure_dataset(json.loads(sys.argv[1]))
"""


class Bench:
    """A store, and a folder that some server has."""

    def __init__(self, root: Path) -> None:
        self.root, self.src = root, root / "src"
        (self.src / "sub dir").mkdir(parents=True)
        (self.src / "big.bin").write_bytes(BIG)
        (self.src / "sub dir" / "a, b.txt").write_text("small")

    def options(self, **changes: Any) -> dict[str, Any]:
        defaults = {name: option.get("default") for name, option in DATASET.items()}
        return {**defaults, "name": "it", "store_root": str(self.root / "store"), **changes}

    def ensure(self, **changes: Any) -> dict[str, Any]:
        return ensure_dataset(self.options(**changes))

    @property
    def data(self) -> Path:
        return self.root / "store" / "datasets" / "by-name" / "it"

    def is_whole(self) -> bool:
        return (self.data / "big.bin").read_bytes() == BIG and (self.data / "sub dir/a, b.txt").read_text() == "small"

    def kill_in_the_middle(self, options: dict[str, Any], come: Callable[[], int]) -> None:
        """Stage in another process until some of the large file has come, then kill all of that."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, "-c", PROGRAM, json.dumps(options)]
        with subprocess.Popen(words, env=environment, start_new_session=True) as process:
            deadline = time.monotonic() + 60
            while not len(BIG) // 4 < come() and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.01)
            assert process.poll() is None, "it was faster than this test"
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail("no server listens")


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real sshd of this machine; user@host by which rsync gets through it."""
    assert SSHD, "openssh-server is installed by scripts/bootstrap test"
    folder, port = tmp_path / "ssh", free_port()
    folder.mkdir()
    for name in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/key.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nSetEnv SHLVL=9\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    words = [SSHD, "-D", "-e", "-f", str(folder / "config")]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            listens(port, process)
            options = f"-o UserKnownHostsFile={folder}/known -o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes"
            monkeypatch.setenv("RSYNC_RSH", f"ssh -o BatchMode=yes -p {port} -i {folder}/key {options}")
            yield f"{getpass.getuser()}@127.0.0.1"
        finally:
            os.killpg(process.pid, signal.SIGTERM)


@pytest.fixture
def daemon(bench: Bench) -> Iterator[str]:
    """A real daemon of rsync, slow enough to be killed in the middle."""
    port = free_port()
    config = bench.root / "rsyncd.conf"
    config.write_text(f"use chroot = no\naddress = 127.0.0.1\n[d]\npath = {bench.src}\n")
    words = ["rsync", "--daemon", "--no-detach", f"--port={port}", f"--config={config}", "--bwlimit=4000"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            listens(port, process)
            yield f"rsync://127.0.0.1:{port}/d"
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def test_rsync_by_ssh(bench: Bench, ssh: str) -> None:
    src = f"{ssh}:{bench.src}"
    result = bench.ensure(source="rsync", src=src)
    assert bench.is_whole() and result["dataset"]["files"] == 2
    assert not bench.ensure(source="rsync", src=src, update=True)["changed"]
    (bench.src / "sub dir" / "a, b.txt").write_text("newer!")
    again = bench.ensure(source="rsync", src=src, update=True)
    assert again["changed"] and again["moved"] < 10_000
    assert (bench.data / "sub dir" / "a, b.txt").read_text() == "newer!"
    one = bench.ensure(source="rsync", src=f"{src}/big.bin")
    assert one["dataset"]["files"] == 1 and (bench.data / "big.bin").read_bytes() == BIG


def test_a_killed_rsync_is_gone_on_with(bench: Bench, daemon: str) -> None:
    options = bench.options(source="rsync", src=daemon)
    landing = bench.root / "store" / "datasets"

    def come() -> int:
        found = list(landing.glob("*.partial/parts.rsync/*big.bin*"))
        return max([one.stat().st_size for one in found], default=0)

    bench.kill_in_the_middle(options, come)
    there = come()
    result = ensure_dataset(options)
    assert bench.is_whole()
    # Of what was there only sums travel.
    assert result["moved"] < len(BIG) - there + 200_000


@pytest.mark.parametrize(
    ("src", "message"),
    [
        ("/local/path", "src: '/local/path'"),
        ("-evil:/x", "src: '-evil:/x'"),
        ("me@-oProxyCommand=touch canary:/x", "not an rsync source"),
        ("-oProxyCommand=touch canary@host:/x", "not an rsync source"),
        ("{ssh}:/nowhere/at/all", r"No such file or directory.* Mend src"),
        ("{ssh}:{src}/leads", r"a link to a path outside of the folder, /etc/passwd"),
        ("rsync://127.0.0.1:9/x", r"Connection refused.* Log in there once by ssh"),
    ],
)
def test_bad_sources_of_rsync(bench: Bench, ssh: str, src: str, message: str) -> None:
    (bench.src / "leads").mkdir()
    (bench.src / "leads" / "out").symlink_to("/etc/passwd")
    with pytest.raises(RankzeroError, match=message):
        bench.ensure(source="rsync", src=src.format(ssh=ssh, src=bench.src))


@pytest.mark.parametrize(("source", "src", "name"), [("rsync", "host:/x", "rsync"), ("object", "remote:x", "rclone")])
def test_a_program_that_is_missing_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, source: str, src: str, name: str
) -> None:
    monkeypatch.setattr(programs, "_PLACES", "/nonexistent")
    with pytest.raises(RankzeroError, match=f"source: {source} needs the command {name}.* Install the package {name}"):
        bench.ensure(source=source, src=src)


@pytest.fixture
def remote(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> str:
    """A remote of the real rclone: the folder, as a store of this machine."""
    assert shutil.which("rclone"), "rclone is installed by scripts/bootstrap test"
    config = bench.root / "rclone.conf"
    config.write_text(f"[store]\ntype = alias\nremote = {bench.src}\n")
    monkeypatch.setenv("RCLONE_CONFIG", str(config))
    return "store:"


def test_an_object_store(bench: Bench, remote: str) -> None:
    result = bench.ensure(source="object", src=remote)
    assert bench.is_whole() and result["moved"] == len(BIG) + len("small")
    assert not bench.ensure(source="object", src=remote, update=True)["changed"]
    one = bench.ensure(source="object", src=f"{remote}sub dir/a, b.txt")
    assert one["dataset"]["files"] == 1 and (bench.data / "a, b.txt").read_text() == "small"


def test_a_killed_transfer_from_an_object_store_is_gone_on_with(
    bench: Bench, remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = bench.options(source="object", src=remote)
    parts = bench.root / "store" / "datasets"

    def come() -> int:
        return max([one.stat().st_size for one in parts.glob("*.partial/parts/*")], default=0)

    monkeypatch.setenv("RCLONE_BWLIMIT", "2M")
    bench.kill_in_the_middle(options, come)
    monkeypatch.delenv("RCLONE_BWLIMIT")
    there = come()
    result = ensure_dataset(options)
    assert bench.is_whole()
    assert len(BIG) - there <= result["moved"] <= len(BIG) - there + len("small")


def test_an_object_that_changed_starts_again(bench: Bench, remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = bench.options(source="object", src=remote)
    parts = bench.root / "store" / "datasets"
    monkeypatch.setenv("RCLONE_BWLIMIT", "2M")
    bench.kill_in_the_middle(
        options, lambda: max([one.stat().st_size for one in parts.glob("*.partial/parts/*")], default=0)
    )
    monkeypatch.delenv("RCLONE_BWLIMIT")
    (bench.src / "big.bin").write_bytes(BIG[::-1])
    result = ensure_dataset(options)
    assert (bench.data / "big.bin").read_bytes() == BIG[::-1]
    assert result["notes"] == ["big.bin changed at its source since the last run: it starts again"]


@pytest.mark.parametrize(
    ("src", "message"),
    [
        ("/local", "src: '/local'"),
        (":sftp,ssh='touch canary':x", "not an rclone path"),
        ("remote,ssh='touch canary':x", "not an rclone path"),
        ("other:x", "cannot be read by rclone: .*didn't find section in config file.*rclone config"),
        ("store:nowhere", "cannot be read by rclone: .*not found.* Mend src"),
    ],
)
def test_bad_object_stores(bench: Bench, remote: str, src: str, message: str) -> None:
    with pytest.raises(RankzeroError, match=message):
        bench.ensure(source="object", src=src)


def test_the_hub(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"train/a[1].jsonl": b"{}", "train/b.jsonl": BIG, "README.md": b"x"}
    with hub.Hub(files).running() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        monkeypatch.setenv("HF_HOME", str(bench.root / "own"))
        wanted = {"source": "hub", "src": "org/small", "python": str(hub.python()), "include": ["train/*"]}
        result = bench.ensure(revision="main", **wanted)
        assert result["dataset"]["files"] == 2 and (bench.data / "train" / "b.jsonl").read_bytes() == BIG
        asked = len(served.asked)
        assert not bench.ensure(revision="main", **wanted)["changed"] and len(served.asked) == asked
        assert not bench.ensure(revision="main", update=True, **wanted)["changed"]
        (bench.data / "train" / "a[1].jsonl").unlink()
        mended = bench.ensure(revision="main", **wanted)
        assert mended["repaired"] == {"train/a[1].jsonl": "is missing"}
        assert (bench.data / "train" / "a[1].jsonl").read_bytes() == b"{}"
        with pytest.raises(RankzeroError, match="revision: org/small has no 'nope'"):
            bench.ensure(revision="nope", **{**wanted, "name": "other"})
        with pytest.raises(RankzeroError, match="org/gated is gated"):
            bench.ensure(**{**wanted, "src": "org/gated"})
