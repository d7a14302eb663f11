# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A session that serves something: ssh, VS Code and a browser reach a node through the login node, and nobody else."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shlex
import socket as free_socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankzero import errors
from tests.cluster.launching import FINAL, Site
from tests.cluster.newcomer import SECONDS, Newcomer, shell_of
from tests.repository import run
from tests.terminals import Terminal

#: A value of the user's own machine, which nothing may keep.
TOKEN = secrets.token_hex(16)
JOB = """\
name: desk
command: [train.py]
code: {src: ..}
env: {GREETING: 'it''s "quoted"'}
secrets: {TOKEN: {from_env: DESK_TOKEN}}
setup: {commands: [echo noise, export FROM_SETUP=set]}
resources: {nodes: 1, time: "00:10:00"}
"""
#: Runs a command as another user, whom the head and the nodes know.
STRANGER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp")


class Desk:
    """A session of the newcomer's job, in a terminal of his own."""

    def __init__(self, newcomer: Newcomer, site: Site) -> None:
        self.newcomer, self.site = newcomer, site
        newcomer.door("cluster", site.lab, shell_of(site))
        made = newcomer.types("rankzero", "init", "--login", "cluster")
        assert made.returncode == errors.OK, made.stdout + made.stderr
        self.configs = newcomer.home / ".ssh" / "rankzero"
        self.terminals: list[Terminal] = []

    def job(self, text: str) -> None:
        (self.newcomer.project / "jobs" / "desk.yml").write_text(text, encoding="utf-8")

    def opened(self, flag: str, until: str, *more: str) -> Terminal:
        argv = ["rankzero", "shell", "jobs/desk.yml", flag, *more]
        environment = {**self.newcomer.environment, "COLUMNS": "200", "DESK_TOKEN": TOKEN}
        words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *argv]
        self.terminals.append(Terminal(words, self.newcomer.project, 200))
        self.terminals[-1].read(until)
        return self.terminals[-1]

    def ssh(self, *words: str, data: bytes = b"", program: str = "ssh") -> subprocess.CompletedProcess[bytes]:
        (config,) = self.configs.glob("*.conf")
        return subprocess.run(
            [program, "-F", str(config), *words], env=self.newcomer.environment, input=data, capture_output=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip

    def on_the_head(self, line: str) -> subprocess.CompletedProcess[str]:
        """What a stranger is answered on the login node."""
        words = [str(self.site.lab.dir / "bin" / "head"), *STRANGER, "/bin/sh", "-c", line]
        return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)

    def on(self, node: str, line: str) -> subprocess.CompletedProcess[str]:
        """What a stranger is answered on a node."""
        words = [str(self.site.lab.dir / "bin" / "node"), node, *STRANGER, "/bin/sh", "-c", line]
        return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)

    @contextlib.contextmanager
    def without(self, program: str) -> Iterator[None]:
        """A program that no node can start."""
        nodes = [[str(self.site.lab.dir / "bin" / "node"), node] for node in self.site.lab.nodes]
        for node in nodes:
            subprocess.run([*node, "mount", "--bind", "/dev/null", program], check=True)
        try:
            yield
        finally:
            for node in nodes:
                subprocess.run([*node, "umount", program], check=True)


@pytest.fixture
def desk(newcomer: Newcomer, site: Site) -> Iterator[Desk]:
    made = Desk(newcomer, site)
    yield made
    for terminal in made.terminals:
        terminal.close()


def test_ssh_reaches_a_session_until_it_ends_and_a_second_user_does_not(desk: Desk, tmp_path: Path) -> None:
    desk.job(JOB)
    checked = desk.newcomer.types("rankzero", "shell", "jobs/desk.yml", "--code", "--check")
    assert checked.returncode == errors.OK and not desk.configs.exists(), checked.stdout + checked.stderr

    terminal = desk.opened("--code", "Ctrl-C ends it", "--name", "editor")
    (named,) = desk.site.jobs("desk.editor")
    (config,) = desk.configs.glob("*.conf")
    host = config.stem
    assert f"ssh -F ~/.ssh/rankzero/{config.name} {host}" in terminal.text
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    asked = 'echo "$(uname -n)|$(id -u)|$SLURM_JOB_ID|$GREETING|$FROM_SETUP|$(pwd -P)|$(ls)"'
    assert desk.ssh(host, 'printf %s "$TOKEN" | sha256sum').stdout.split()[0].decode() == digest
    seen = desk.ssh(host, asked)
    assert seen.returncode == 0, seen.stderr
    node, uid, job_id, greeting, from_setup, place, listed = seen.stdout.decode().strip().split("|")
    assert job_id == named and node in desk.site.lab.nodes and uid == str(desk.site.user.uid), seen.stdout
    assert (greeting, from_setup, listed) == ('it\'s "quoted"', "set", "train.py") and "/shells/desk/" in place
    # What VS Code does: a program that talks over its input and output, of any bytes, and its exit code.
    data = bytes(range(256)) * 4096
    assert desk.ssh(host, "cat", data=data).stdout == data
    assert desk.ssh(host, "exit 7").returncode == 7
    copied = tmp_path / "copied"
    assert desk.ssh(f"{host}:/etc/hostname", str(copied), program="scp").returncode == 0 and copied.exists()

    folder = Path(place).parent
    connect, opened = folder / "door" / "connect", desk.site.host_path(str(folder / "door" / "open"))
    place_on_node = opened.read_text(encoding="utf-8").split()[2]
    refused = [
        desk.on_the_head(f"exec /bin/sh {connect}"),
        desk.on_the_head(f"exec srun --overlap --jobid={job_id} --ntasks=1 id"),
        desk.on(node, f"ls {place_on_node}"),
        desk.on_the_head(f"cat {folder}/door/host_key"),
    ]
    for answer in refused:
        assert answer.returncode and not answer.stdout, answer
    said = [re.sub(r"\s+", " ", answer.stderr) for answer in refused]
    assert "ermission denied" in said[0] + said[2] + said[3] and "denied" in said[1], said
    # Who has the words that lead there, and not the key.
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    stranger = tmp_path / "stranger"
    stranger.write_text(re.sub(r"IdentityFile .*", f"IdentityFile {tmp_path}/other", config.read_text()))
    denied = subprocess.run(
        ["ssh", "-F", stranger, host, "id"], env=desk.newcomer.environment, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert denied.returncode == 255 and "Permission denied (publickey)" in denied.stderr, denied.stderr

    late = shlex.split(re.findall(r"ProxyCommand (.*)", config.read_text(encoding="utf-8"))[0].replace("%%", "%"))
    terminal.interrupt()
    ended = terminal.read("Relinquishing job allocation")
    assert desk.terminals[0].process.wait(SECONDS) == errors.OK, ended
    assert not list(desk.configs.iterdir())
    desk.site.lab.wait_until(lambda: desk.site.jobs("")[job_id] in FINAL, 60, "the allocation ends with the session")
    assert list((desk.site.host_path(str(folder)) / "secrets").iterdir()) == []
    for root in (desk.site.host_path(str(folder)), desk.newcomer.home, desk.newcomer.project):
        assert not [path for path in root.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    answer = subprocess.run(late, env=desk.newcomer.environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 69 and "no session of desk is open" in answer.stderr, answer


def test_what_cannot_be_served_is_said(desk: Desk) -> None:
    desk.job(JOB)
    said = desk.opened("--jupyter", "PLAY RECAP").text
    assert "no jupyter in the job's environment: add jupyterlab" in " ".join(said.split()), said
    assert not list(desk.configs.iterdir())
    with desk.without("/usr/sbin/sshd"):
        said = desk.opened("--code", "PLAY RECAP").text
    assert "there is no sshd on node" in " ".join(said.split()), said
    shown = desk.newcomer.types("rankzero", "shell", "jobs/desk.yml", "--code", "--jupyter")
    assert shown.returncode == errors.USAGE and "not allowed with argument" in shown.stderr
    row = json.loads(desk.newcomer.types("rankzero", "shell", "jobs/desk.yml", "--code", "--json").stdout)["shells"][0]
    assert row["ssh_config"] == f"~/.ssh/rankzero/{row['ssh_host']}.conf" and "--code" not in row["commands"][-1]
    answer = desk.ssh(row["ssh_host"], "id")
    assert answer.returncode == 255 and b"no session of desk is open" in answer.stderr, answer.stderr


@pytest.mark.more
def test_jupyter_is_reached_by_its_user_alone(desk: Desk, tmp_path: Path) -> None:
    """The real server, of an environment that the site has."""
    site = desk.site
    inside = site.user.place("jupyter")
    environment = site.host_path(f"{inside}/environment")
    if not (environment / "bin" / "jupyter-server").exists():
        run("uv", "venv", "--quiet", "--clear", "--python", "/usr/bin/python3", environment)
        run("uv", "pip", "install", "--quiet", "--python", environment / "bin" / "python", "jupyter_server")
        # The paths of its programs are those of the nodes.
        for program in (environment / "bin").glob("jupyter*"):
            program.write_text(program.read_text(encoding="utf-8").replace(str(environment), f"{inside}/environment"))
        site.user.give(environment)
    desk.job(f"{JOB}environment: {{mode: path, path: {inside}/environment}}\n")
    terminal = desk.opened("--jupyter", "token=")
    terminal.read("is running at")
    (config,) = desk.configs.glob("*.conf")
    node, socket, token = re.findall(
        r"jupyter runs on (\S+) until.* -L 8888:(\S+) rankzero-desk.*\?token=(\w+)", terminal.text, re.DOTALL
    )[0]
    assert len(token) == 48
    with free_socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["ssh", "-F", str(config), "-N", "-L", f"{port}:{socket}", "-o", "ExitOnForwardFailure=yes", config.stem]
    with subprocess.Popen(words, env=desk.newcomer.environment) as tunnel:

        def answered(given: str) -> int:
            with contextlib.suppress(urllib.error.URLError, OSError):
                try:
                    return int(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/contents{given}").status)
                except urllib.error.HTTPError as error:
                    return error.code
            return 0

        site.lab.wait_until(lambda: answered(f"?token={token}") == 200, 60, "Jupyter answers")
        assert answered("") == 403 and answered(f"?token={token[::-1]}") == 403
        tunnel.terminate()
    ask = f"import socket; socket.socket(socket.AF_UNIX).connect({socket!r})"
    refused = desk.on(node, f"python3 -c {shlex.quote(ask)}")
    assert refused.returncode and "Permission denied" in refused.stderr, refused
    seen = desk.on(node, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "sock_mode" in seen and token not in seen
    for root in (site.host_path(f"{site.lab.shared_inside}/home"), desk.newcomer.home, desk.newcomer.project):
        for path in root.rglob("*"):
            assert not path.is_file() or token.encode() not in path.read_bytes(), path
    terminal.interrupt()
    terminal.read("Shut down this Jupyter server")
    os.write(terminal.master, b"y\n")
    terminal.read("Relinquishing job allocation")
    assert terminal.process.wait(SECONDS) == errors.OK and not list(desk.configs.iterdir())
