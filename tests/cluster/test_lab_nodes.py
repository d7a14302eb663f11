# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node and the head of the lab are, seen from inside."""

from __future__ import annotations

import http.server
import json
import os
import pty
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster

FETCH = (
    "import os, sys, urllib.request\n"
    "for name in ('no_proxy', 'NO_PROXY'): os.environ.pop(name, None)\n"
    "opener = urllib.request.build_opener(urllib.request.ProxyHandler({'http': sys.argv[1]} if sys.argv[1] else {}))\n"
    "print(opener.open(sys.argv[2], timeout=10).read().decode())\n"
)


@pytest.fixture
def realistic(lab: LabCluster) -> LabCluster:
    if lab.way != "realistic":
        pytest.skip("nodes with namespaces of their own need root")
    return lab


def test_a_job_on_all_nodes_runs_on_eight_hosts(lab: LabCluster) -> None:
    _, text = lab.run_job("--nodes=8", "--ntasks-per-node=1", script="srun printenv SLURMD_NODENAME")
    assert sorted(text.split()) == [f"node{number:02d}" for number in range(1, 9)]


def test_nodes_have_names_of_their_own(realistic: LabCluster) -> None:
    _, text = realistic.run_job("--nodes=8", "--ntasks-per-node=1", script="srun hostname")
    assert sorted(text.split()) == realistic.nodes
    assert realistic.head(["hostname"]).stdout.strip() == "head"


def test_nodes_have_two_interfaces_and_no_way_out(realistic: LabCluster) -> None:
    shown = json.loads(realistic.node("node03", ["ip", "-json", "address"]).stdout)
    addresses = {
        link["ifname"]: [entry["local"] for entry in link["addr_info"] if entry["family"] == "inet"] for link in shown
    }
    lab = realistic.lab
    assert addresses == {
        "lo": ["127.0.0.1"],
        "eth0": [lab.address("node03", "eth0")],
        "ib0": [lab.address("node03", "ib0")],
    }
    routes = json.loads(realistic.node("node03", ["ip", "-json", "route"]).stdout)
    assert sorted(route["dst"] for route in routes) == [str(lab.subnet("eth0")), str(lab.subnet("ib0"))]
    for other in ("node07", "node07-ib"):
        realistic.node("node03", ["python3", "-c", f"import socket; print(socket.gethostbyname('{other}'))"])
    reach = f"import socket; socket.create_connection(('{lab.address('node07')}', 6818), 5)"
    realistic.node("node03", ["python3", "-c", reach])


def test_memory_file_systems_are_private_and_shared_is_shared(realistic: LabCluster) -> None:
    for place in ("/tmp", "/run", "/dev/shm", "/var/tmp"):
        realistic.node("node01", ["sh", "-c", f"echo one > {place}/rankzero-probe"])
        assert realistic.node("node02", ["cat", f"{place}/rankzero-probe"], check=False).returncode != 0
        assert not Path(place, "rankzero-probe").exists()
    realistic.node("node01", ["sh", "-c", "echo one > /shared/probe"])
    assert realistic.node("node02", ["cat", "/shared/probe"]).stdout == "one\n"
    assert realistic.head(["cat", "/shared/probe"]).stdout == "one\n"
    assert (realistic.shared / "probe").read_text(encoding="utf-8") == "one\n"


def test_the_hosts_programs_and_users_are_there_and_stay_untouched(realistic: LabCluster) -> None:
    if realistic.lab.root:
        pytest.skip("the nodes of another Slurm have a root file system of their own (tests/cluster/test_releases.py)")
    here = Path(__file__)
    on_root = os.stat(here).st_dev == os.stat("/").st_dev and not str(here).startswith(("/tmp/", "/run/", "/dev/"))
    if on_root:  # a checkout elsewhere is what the option binds is for
        assert realistic.node("node05", ["cat", str(here)]).stdout == here.read_text(encoding="utf-8")
    # The tests with two users add theirs on the same lab.
    users = realistic.node("node05", ["cat", "/etc/passwd"]).stdout.splitlines()
    assert set(Path("/etc/passwd").read_text(encoding="utf-8").splitlines()) <= set(users)
    realistic.node("node05", ["sh", "-c", "echo gone > /usr/rankzero-probe"])
    assert not Path("/usr/rankzero-probe").exists()
    realistic.node("node06", ["test", "!", "-e", "/usr/rankzero-probe"])


def test_gpus_are_devices_that_jobs_get(lab: LabCluster) -> None:
    _, text = lab.run_job("--nodes=2", "--gres=gpu:3", script="srun --ntasks-per-node=1 printenv CUDA_VISIBLE_DEVICES")
    assert text.split() == ["0,1,2", "0,1,2"]
    assert "gpu:8" in lab.head(["sinfo", "--noheader", "--format=%G"]).stdout
    if lab.way == "realistic":
        listed = lab.node("node08", ["sh", "-c", "ls /dev/nvidia*"]).stdout.split()
        assert listed == [f"/dev/nvidia{index}" for index in range(8)]
        assert lab.node("node08", ["stat", "--format=%F", "/dev/nvidia0"]).stdout.strip() == "character special file"


def test_partitions(lab: LabCluster) -> None:
    lines = lab.head(["sinfo", "--noheader", "--summarize", "--format=%P %l %D"]).stdout.split("\n")
    assert sorted(line for line in lines if line) == ["batch* infinite 8", "short 1:00:00 8"]


def test_accounting_knows_a_job_and_forgets_its_comment(lab: LabCluster) -> None:
    job, _ = lab.run_job("--comment=forget-me", script="exit 0")

    def recorded() -> list[str]:
        shown = lab.head(["sacct", "--noheader", "--parsable2", "-X", f"--jobs={job}", "--format=State,Comment"])
        return shown.stdout.splitlines()

    lab.wait_until(lambda: recorded() == ["COMPLETED|"], what="sacct shows the job, without its comment")


def test_another_user_can_submit(realistic: LabCluster) -> None:
    output = realistic.shared / "nobody.out"
    wrap = ["sbatch", "--wait", "--chdir=/", "--output=/shared/nobody.out", "--wrap", "srun id -un"]
    realistic.head(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *wrap])
    assert output.read_text(encoding="utf-8") == "nobody\n"


def test_a_job_is_requeued_soon(lab: LabCluster) -> None:
    """Requeue is on by default, and quick: the credential of the first attempt expires after seconds."""
    count = f"{lab.shared_inside}/requeue-count"
    script = f'echo x >> {count}; if [ -z "$SLURM_RESTART_COUNT" ]; then scontrol requeue "$SLURM_JOB_ID"; sleep 60; fi'
    lab.run_job("--open-mode=append", script=script, timeout=120)
    assert (lab.shared / "requeue-count").read_text(encoding="utf-8") == "x\nx\n"


# ---- the wrappers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["a b", "c'd", 'e"f', "$(id)", "`id`", "*", "", "-n", "ü\n#"]])
def test_arguments_arrive_as_they_are(lab: LabCluster, words: list[str]) -> None:
    show = ["python3", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words]
    assert json.loads(lab.head(show).stdout) == words
    assert json.loads(lab.node("node02", show).stdout) == words


def test_exit_code_and_input_pass(lab: LabCluster) -> None:
    assert lab.head(["sh", "-c", "exit 42"], check=False).returncode == 42
    assert lab.node("node01", ["sh", "-c", "exit 43"], check=False).returncode == 43
    assert lab.head(["cat"], input="some\ninput").stdout == "some\ninput"
    assert lab.node("node01", ["cat"], input="some\ninput").stdout == "some\ninput"


def test_the_environment_is_that_of_a_login(lab: LabCluster) -> None:
    settings = {"PATH": "/usr/bin:/bin", "HOME": "/root", "TERM": "dumb", "SECRET": "x", "SLURM_CPU_BIND": "none"}
    for program in (["head"], ["node", "node01"]):
        command = [str(lab.dir / "bin" / program[0]), *program[1:], "env"]
        shown = subprocess.run(command, env=settings, capture_output=True, text=True, check=True, cwd="/").stdout
        seen = dict(line.split("=", 1) for line in shown.splitlines())
        assert seen["HOME"] == "/root"
        assert seen["TERM"] == "dumb"
        assert not {"SECRET", "SLURM_CPU_BIND", "OLDPWD"} & set(seen)


def test_a_terminal_passes(lab: LabCluster) -> None:
    primary, secondary = pty.openpty()
    with subprocess.Popen(
        [str(lab.dir / "bin" / "head"), "tty"], stdin=secondary, stdout=secondary, start_new_session=True
    ) as process:
        process.wait(timeout=20)
    os.close(secondary)
    assert os.read(primary, 100).decode().strip().startswith("/dev/pts/")
    os.close(primary)


def test_an_unknown_node_is_named(lab: LabCluster) -> None:
    done = lab.node("node99", ["true"], check=False)
    assert done.returncode == 2
    assert "no node node99; the lab has node01 to node08" in done.stderr


PLAY = """
- hosts: slurm_login
  gather_facts: false
  tasks:
    - ansible.builtin.command: hostname
      register: name
    - ansible.builtin.copy:
        content: "{{ launch_cluster.store_root }} {{ name.stdout }}"
        dest: "{{ result }}"
"""


@pytest.mark.parametrize("pipelining", ["true", "false"])
def test_ansible_works_on_the_head(lab: LabCluster, tmp_path: Path, pipelining: str) -> None:
    book = tmp_path / "play.yml"
    book.write_text(PLAY, encoding="utf-8")
    result = f"{lab.shared_inside}/ansible-{pipelining}"
    done = subprocess.run(
        ["ansible-playbook", "--inventory", str(lab.inventory), str(book), "--extra-vars", f"result={result}"],
        env={**os.environ, "ANSIBLE_PIPELINING": pipelining},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    hostname = lab.head(["hostname"]).stdout.strip()
    written = (lab.shared / f"ansible-{pipelining}").read_text(encoding="utf-8")
    assert written == f"{lab.shared_inside}/rankzero/store {hostname}"


# ---- the head's way out -----------------------------------------------------------------------------------------


@pytest.fixture
def web_server(tmp_path: Path) -> Iterator[str]:
    """A web server of the host, on an address that only the host's network has."""
    (tmp_path / "page").write_text("from outside", encoding="utf-8")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/page"
        server.shutdown()


def test_only_the_head_reaches_the_outside_and_only_by_its_proxy(realistic: LabCluster, web_server: str) -> None:
    proxy = realistic.head(["printenv", "http_proxy"]).stdout.strip()
    assert realistic.head(["python3", "-c", FETCH, proxy, web_server]).stdout == "from outside\n"
    assert realistic.head(["python3", "-c", FETCH, "", web_server], check=False).returncode != 0
    assert realistic.node("node01", ["python3", "-c", FETCH, "", web_server], check=False).returncode != 0
    head = f"http://{realistic.lab.address('head')}:{proxy.rsplit(':', 1)[1]}"
    for address in (proxy, head):
        assert realistic.node("node01", ["python3", "-c", FETCH, address, web_server], check=False).returncode != 0
    assert realistic.node("node01", ["printenv", "http_proxy"], check=False).returncode != 0


def test_the_proxy_tunnels(realistic: LabCluster, web_server: str) -> None:
    """CONNECT, as https uses it."""
    port = web_server.rsplit(":", 1)[1].split("/")[0]
    script = (
        "import http.client\n"
        "connection = http.client.HTTPConnection('127.0.0.1', 3128, timeout=10)\n"
        f"connection.set_tunnel('127.0.0.1', {port})\n"
        "connection.request('GET', '/page')\n"
        "print(connection.getresponse().read().decode())\n"
    )
    assert realistic.head(["python3", "-c", script]).stdout == "from outside\n"
