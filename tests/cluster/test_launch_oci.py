# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OCI images by a real crun in ordinary steps of a real Slurm, with several ranks a node."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import images
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site, log_of, rank_logs
from tests.cluster.test_attach import PROMPT, Terminal
from tests.cluster.test_dataset import role, staged, texts

pytestmark = pytest.mark.skipif(
    not shutil.which("crun"), reason="crun is not installed (a package of Debian and others)"
)

VALUES = {"PATH": "/usr/bin", "INSIDE": "torch", "RANK": "77", "OMP_NUM_THREADS": "99"}
#: What a rank says of its place.
LOOK = """\
import hashlib, json, os
names = ("RANK", "WORLD_SIZE", "HOME", "INSIDE", "OMP_NUM_THREADS", "SLURM_PROCID")
say = {name: os.environ.get(name) for name in names}
say.update(uid=os.getuid(), cwd=os.getcwd(), image=os.path.exists("/in-the-image"), data=os.listdir("/data/deep"))
say["space"] = os.stat("/proc/self/ns/mnt").st_ino
say["digest"] = hashlib.sha256(os.environ["TOKEN"].encode()).hexdigest()
try:
    open("/data/deep/new", "w")
except OSError as error:
    say["write"] = error.strerror
print(json.dumps(say), flush=True)
if os.environ["RANK"] == "0":
    with open("result.json", "w") as stream:
        stream.write('{"loss": 1.5}')
"""
#: Says each signal that it gets; ends with the first TERM, after it had time to get a second one.
PATIENT = """\
import os, signal, sys, time
seen = []
signal.signal(signal.SIGTERM, lambda number, frame: (seen.append(number), print("got", number, flush=True)))
print("up", flush=True)
while not seen:
    time.sleep(0.1)
time.sleep(0.5)
"""


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    if lab.way != "realistic":
        pytest.skip("in a lab of the simple way all nodes are this machine: tests/unit/runtime/test_oci.py is the same")
    if lab.node(lab.nodes[0], ["sh", "-c", "command -v crun"], check=False).returncode:
        pytest.skip(f"the nodes' root of Slurm {lab.lab.slurm} has no crun")
    made = Site(lab, tmp_path, request.node.name)
    yield made
    made.close()


@pytest.fixture(scope="module")
def image(lab: LabCluster) -> Iterator[str]:
    """A squashfs file on /shared, as the nodes name it; its bundle lies beside it."""
    folder = lab.shared / "images-of-oci"
    shutil.rmtree(folder, ignore_errors=True)
    made = images.built(folder, VALUES, "oci")
    yield made["sqsh"].replace(str(lab.shared), lab.shared_inside)
    shutil.rmtree(folder)


def bundle(image: str) -> str:
    return os.path.join(os.path.dirname(image), "bundle")


def leftovers(site: Site, text: str) -> dict[str, list[str]]:
    """On each node: processes that name `text`, what crun keeps of containers, and mounts of ours."""
    found = {}
    for node in site.lab.nodes:
        lines = site.lab.node(node, ["ps", "-eo", "args"]).stdout.splitlines()
        left = [line for line in lines if text in line and "ps -eo" not in line]
        left += site.lab.node(node, ["sh", "-c", "ls -d /run/crun/* /run/user/*/crun/* 2>/dev/null; :"]).stdout.split()
        left += site.lab.node(
            node, ["sh", "-c", "grep -E '^(rankzero|squashfuse) ' /proc/mounts; :"]
        ).stdout.splitlines()
        left += [line for line in lines if "image.sqsh" in line and "ps -eo" not in line]
        if left:
            found[node] = left
    return found


def nothing_is_left(site: Site, text: str) -> None:
    """The guard of a batch script looks four times a second whether the script is still there."""
    site.lab.wait_until(lambda: leftovers(site, text) == {}, 30, f"nothing of {text} is left on any node")


def ranks_look_about(site: Site, container: dict[str, Any], fit: str, uid: int | None = None, **parts: Any) -> Path:
    """Six ranks on two nodes in an image: each says what it must. `fit`: what the preflight says of a node. `parts`: of
    the job, which has to bring TOKEN=hidden; `launch` are options of its launch. Returns the run directory, once the
    job has left its nodes.
    """
    options = parts.pop("launch", {})
    data = f"{site.state_root}.data"
    (site.own(data) / "x").touch()
    job = site.job(
        ["python3", "-c", LOOK],
        resources={"nodes": 2, "cpus_per_rank": 2, "time": "00:10:00"},
        launcher={"ranks_per_node": 3},
        container={**container, "mounts": [f"{data}:/data/deep:ro"]},
        artifact={"require": {"loss": {"lt": 2}}},
        **parts,
    )
    launch = site.launch(job, **options)
    outcome, run = site.outcome(launch), site.run_dir(launch)
    step = run / "logs" / "0" / "step.log"
    assert outcome["success"] and outcome["artifact"]["valid"], log_of(run, launch["job_id"]) + step.read_text()
    logs = rank_logs(run)
    assert sorted(logs) == [f"rank-{rank:04d}.log" for rank in range(6)]
    spaces = []
    for rank, text in enumerate(logs.values()):
        seen: dict[str, Any] = json.loads(text.splitlines()[-1])
        assert (seen["RANK"], seen["SLURM_PROCID"], seen["WORLD_SIZE"]) == (str(rank), str(rank), "6")
        assert (seen["HOME"], seen["cwd"]) == (f"{launch['run_dir']}/home", f"{launch['run_dir']}/work")
        assert (seen["INSIDE"], seen["OMP_NUM_THREADS"], seen["image"], seen["data"]) == ("torch", "2", True, ["x"])
        assert (seen["uid"], seen["write"]) == (site.user.uid if uid is None else uid, "Read-only file system")
        assert seen["digest"] == hashlib.sha256(b"hidden").hexdigest()
        spaces.append(seen["space"])
    # One container a node, which its ranks share.
    assert len(set(spaces[:3])) == len(set(spaces[3:])) == 1
    table = (run / "preflight" / "0" / "table").read_text().splitlines()
    assert len([line for line in table if fit in line]) == 2
    site.ended(launch["job_id"])
    return run


def test_ranks_of_two_nodes_run_in_the_image(site: Site, image: str) -> None:
    container, secrets = {"runtime": "oci", "image": image}, {"TOKEN": {"from_env": "TOKEN"}}
    options = {"env": {"TOKEN": "hidden"}}
    run = ranks_look_about(site, container, "image=ok mounts=ok oci=ok", secrets=secrets, launch=options)
    nothing_is_left(site, str(run).replace(str(site.lab.shared), site.lab.shared_inside))


def test_a_users_ranks_get_the_signal_once_and_nothing_is_left(site: Site, image: str) -> None:
    site.outcome(site.launch(site.job("true", name="store")))
    job = site.job(
        ["python3", "-c", PATIENT],
        resources={"nodes": 2, "time": "00:10:00"},
        launcher={"ranks_per_node": 2},
        container={"runtime": "oci", "image": image},
    )
    launch = site.launch(job, **site.as_ordinary_user())
    run = site.run_dir(launch)
    started = site.lab.wait_until
    started(lambda: [text for text in rank_logs(run).values() if "\nup\n" in text][3:], 60, "four ranks are up")
    # As the early signal before the end comes, and then scancel's own.
    site.lab.head(["scancel", "--signal=TERM", launch["job_id"]])
    outcome = site.outcome(launch)
    assert outcome["success"], outcome
    for name, text in rank_logs(run).items():
        assert text.count("got 15") == 1, (name, text)
    site.ended(launch["job_id"])
    nothing_is_left(site, launch["run_dir"])


def test_a_cancelled_job_and_one_that_fails_leave_nothing_on_their_nodes(site: Site, image: str) -> None:
    container = {"runtime": "oci", "image": image}
    # It leaves a child of its own, and does not listen.
    stubborn = site.job("trap '' TERM; sleep 300 & sleep 300", "stubborn", container=container, resources={"nodes": 2})
    container = {"runtime": "oci", "image": bundle(image)}
    failing = site.job("exit 7", "failing", container=container, launcher={"ranks_per_node": 2})
    first, second = site.launch(stubborn), site.launch(failing)
    outcome = site.outcome(second)
    assert (outcome["success"], outcome["exit_code"]) == (False, 7), outcome
    site.lab.wait_until(lambda: len(rank_logs(site.run_dir(first))) == 2, 60, "both ranks are up")
    site.lab.head(["scancel", first["job_id"]])
    assert site.ended(first["job_id"]) == "CANCELLED"
    for launch in (first, second):
        nothing_is_left(site, launch["run_dir"])


def test_an_image_that_is_none_is_refused_and_one_that_a_node_lacks_is_named(site: Site, image: str) -> None:
    empty = f"{site.state_root}.empty"
    site.own(empty)
    job = site.job("true", container={"runtime": "oci", "image": empty, "mounts": [f"{empty}/none:/none"]})
    message = site.play(job).refused()
    assert f"container.image: {empty} has neither bin nor usr" in message
    assert f"container.mounts: {empty}/none does not exist (it should be on the file system of" in message
    assert site.jobs() == {}
    lacking, image = site.lab.nodes[1], bundle(image)
    site.lab.faults.hide(lacking, image)
    try:
        launch = site.launch(
            site.job("true", "hidden", container={"runtime": "oci", "image": image}, resources={"nodes": 2})
        )
        outcome = site.outcome(launch)
    finally:
        site.lab.faults.unhide(lacking, image)
    assert outcome["message"].startswith(f"preflight: {lacking}: the container does not start: "), outcome
    assert "is neither an OCI bundle (config.json) nor a root folder (bin, usr)" in outcome["message"]
    assert rank_logs(site.run_dir(launch)) == {}


#: In an image without terminfo, bash shows no more of a long prompt.
END_OF_PROMPT = r"/work [#$] $"


def opened_shell(site: Site, job: dict[str, Any]) -> tuple[Terminal, str]:
    """The playbook's shell at a terminal, at its prompt, and its folder on the cluster."""
    shown = site.play(job, playbook="rankzero.slurm.shell", run=False)
    assert shown.rc == 0, shown.output
    folder = shown.results("rankzero.slurm.job_shell")[-1]["folder"]
    extra = site.folder / f".extra-{len(site.plays) - 1}.json"
    shell = site.plays[-1].argv
    words = [
        *shell[: shell.index("rankzero.slurm.shell") + 1],
        "-e",
        json.dumps(site.direct()),
        "-e",
        f"@{extra}",
        "-e",
        f"job={site.write(job)}",
    ]
    terminal = Terminal([*words, "-e", "run=true"], site.folder)
    terminal.expect(END_OF_PROMPT)
    return terminal, folder


def test_its_shell(site: Site, image: str) -> None:
    """The playbook's shell is in the image, at a terminal; nothing is left when it closes. (In a short path: an
    image without terminfo, with which bash shows the end of a long prompt only.)
    """
    token = site.host_path(f"{site.lab.shared_inside}/token-{site.token}")
    token.write_text("a value of the cluster\n", encoding="utf-8")
    token.chmod(0o600)
    site.user.give(token)
    job = site.job(
        "true",
        env={"GREETING": "hello"},
        secrets={"TOKEN": {"from_file": f"{site.lab.shared_inside}/{token.name}"}},
        container={"runtime": "oci", "image": image},
        parallelism={"tensor": 2},
        launcher={"ranks_per_node": 2},
    )
    terminal, folder = opened_shell(site, job)
    asked = "$GREETING|$RANKZERO_TP|$INSIDE|$(ls /in-the*)|$(pwd)|$(stat -c %t -L /dev/stdin)|${#TOKEN}"
    terminal.type(f'echo "@""@{asked}@""@"')
    (_before, seen, _after) = terminal.expect(r"@@.*@@.*" + PROMPT).split("@@")
    assert seen.split("|")[:5] == ["hello", "2", "torch", "/in-the-image", f"{folder}/work"], seen
    assert seen.split("|")[5] == "88", "a pseudo terminal (major number 136)"
    assert seen.split("|")[6] == "22", "the secret of the job"
    terminal.type("sh -c 'echo goes\"\"on; exec sleep 600'")
    terminal.expect("goeson")
    os.write(terminal.end, b"\x03")
    terminal.expect(PROMPT)
    terminal.type("exit 0")
    terminal.expect("PLAY RECAP")
    assert terminal.close() == 0
    site.lab.wait_until(lambda: leftovers(site, folder) == {}, 30, "nothing is left")


def seen_in_the_image(site: Site, container: dict[str, Any], **options: Any) -> None:
    """What steps of their own mount on each node, a sealed environment and a packed dataset, is there for the ranks."""
    made = staged(role(site, dataset_src=str(texts(site)), dataset_pack=True))
    code = site.folder / "code"
    (code / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\n')
    (code / "prog.py").write_text(
        "import json, os, sys\ndata = os.environ['RANKZERO_DATA_TEXTS']\n"
        "mounted, text = os.path.ismount(os.path.realpath(data)), open(data + '/a.txt').read()\n"
        "print(json.dumps([sys.prefix, json.__file__, os.path.exists('/in-the-image'), data, text, mounted]))\n"
        "open('result.json', 'w').write('{}') if os.environ['RANK'] == '0' else None\n"
    )
    launch = site.launch(
        site.job(
            ["prog.py"],
            resources={"nodes": 2, "time": "00:05:00"},
            environment={"mode": "sealed", "project": str(code)},
            data={"texts": {"path": made["dataset"]["folder"], "packed": True}},
            container=container,
            artifact={},
        ),
        **options,
    )
    outcome, run = site.outcome(launch), site.run_dir(launch)
    assert outcome["success"], (outcome, log_of(run, launch["job_id"]), rank_logs(run))
    assert len(rank_logs(run)) == 2
    for text in rank_logs(run).values():
        prefix, library, inside, data, read, mounted = json.loads(text.splitlines()[-1])
        assert prefix.startswith("/tmp/rankzero-") and prefix.endswith("/sealed")
        assert library.startswith(prefix + "/lib/python3.") and inside
        assert (data, read, mounted) == (f"{prefix[: -len('sealed')]}data-texts", "hello slurm\n", True)


def test_what_its_node_has_mounted_is_seen_in_the_image(site: Site, image: str) -> None:
    """An ordinary bind of the node's /tmp brings it inside."""
    seen_in_the_image(site, {"runtime": "oci", "image": bundle(image)})


def test_a_role_has_its_own_sealed_environment_in_its_own_image(site: Site, image: str) -> None:
    """And the role beside it has neither."""
    code = site.folder / "code"
    (code / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\n')
    (code / "prog.py").write_text(
        "import json, os, sys\nrole = os.environ['RANKZERO_ROLE']\nfor name in ('seen-' + role, 'result'):\n"
        "    if name != 'result' or role == 'trainer':\n"
        "        json.dump({'seen': [sys.prefix, os.path.exists('/in-the-image')]}, open(name + '.part', 'w'))\n"
        "        os.rename(name + '.part', name + '.json')\n"
    )
    server = {"container": {"runtime": "oci", "image": bundle(image)}, "ready": {"file": "seen-server.json"}}
    server |= {"environment": {"mode": "sealed", "project": str(code)}, "command": ["prog.py"], "on_exit": "done"}
    trainer = {"command": ["prog.py"], "after_ready": ["server"]}
    job = site.job([], roles={"server": server, "trainer": trainer}, artifact={})
    del job["command"]
    launch = site.launch(job, wait=True)
    run = site.run_dir(launch)
    assert site.outcome(launch)["success"], (log_of(run, launch["job_id"]), rank_logs(run))
    seen = {
        role: json.loads((run / "work" / f"seen-{role}.json").read_text())["seen"] for role in ("server", "trainer")
    }
    assert seen["server"][0].startswith("/tmp/rankzero-") and seen["server"][1] is True, seen
    assert seen["trainer"] == ["/usr", False]
