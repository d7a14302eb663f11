# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks in an OCI image by a real crun, under bash with a stand-in for srun only. On a real Slurm:
tests/cluster/test_launch_oci.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests import images
from tests.unit.runtime.harness import ENVIRONMENT_KEY, Job, Site, wait_for

_spec = importlib.util.spec_from_file_location("rankzero_oci", Path(RUNTIME) / "container" / "oci.py")
assert _spec and _spec.loader
oci = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oci)

IMAGE_VALUES = {
    "PATH": "/usr/bin:/bin",
    "RANK": "77",
    "MINE": "of the image",
    "LANG": "image",
    "PYTHONPATH": "/image/lib",
    "HOME": "/image/home",
}

#: An editable install that goes before every path, as some build tools make it.
EDITABLE = """\
import importlib.util, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "mine":
            return importlib.util.spec_from_file_location(name, "/usr/lib/python3/dist-packages/mine/__init__.py")
sys.meta_path.insert(0, Finder())
"""


def why_not() -> str:
    """Why crun cannot be run for real here; empty where it can."""
    if not shutil.which("crun"):
        return "crun is not installed (a package of Debian and others)"
    words = (
        ["unshare", "--user", "--map-root-user", "--mount", "true"] if os.getuid() else ["unshare", "--mount", "true"]
    )
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"namespaces cannot be made here: {done.stderr.strip()}" if done.returncode else ""


real = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(images.built(tmp_path_factory.mktemp("oci"), IMAGE_VALUES, "oci")["oci"])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def job(site: Site, image: Path, spec: dict[str, Any] | None = None, **container: Any) -> Job:
    given = {
        "preflight": {"enabled": False},
        "container": {"runtime": "oci", "image": str(image), **container},
        **(spec or {}),
    }
    return site.job(given)


def step_log(made: Job) -> str:
    return (made.run / "logs" / "0" / "step.log").read_text()


@real
def test_ranks_share_their_nodes_container_and_have_their_own_place(site: Site, image: Path) -> None:
    seen = "os.stat('/proc/self/ns/mnt').st_ino, os.getcwd(), os.path.exists('/in-the-image')"
    code = f"import json, os; print(json.dumps([{seen}]))"
    made = job(
        site,
        image,
        {"command": ["python3", "-c", code], "launcher": {"ranks_per_node": 2}, "resources": {"nodes": 2}},
    )
    assert made.finish() == 0, made.log() + step_log(made)
    spaces, ranks = [], sorted((made.run / "logs" / "0").glob("rank-*.log"))
    for rank, log in enumerate(ranks):
        banner, said = log.read_text().splitlines()
        assert f"RANK={rank} LOCAL_RANK={rank % 2} WORLD_SIZE=4 NODE_RANK={rank // 2}" in banner
        space, folder, inside = json.loads(said)
        assert (folder, inside) == (str(made.run / "work"), True)
        spaces.append(space)
    assert spaces[0] == spaces[1] != spaces[2] == spaces[3]
    assert os.stat("/proc/self/ns/mnt").st_ino not in spaces
    assert list((made.run / ".container").iterdir()) == []


@real
def test_what_reaches_the_rank_is_the_jobs_before_the_images(site: Site, image: Path) -> None:
    awkward = "line 1\nline 2 'é' \"$HOME\" \\ #"
    made = job(site, image, {"env": {"MINE": awkward}, "setup": {"commands": ["export PYTHONPATH=/node LD_PRELOAD="]}})
    assert made.finish() == 0, made.log() + step_log(made)
    seen = made.seen()["env"]
    assert (seen["RANK"], seen["MINE"], seen["LANG"]) == ("0", awkward, "image")
    assert (seen["HOME"], seen["PATH"]) == (str(made.run / "home"), IMAGE_VALUES["PATH"])
    # The job's code first, then what the image says.
    assert seen["PYTHONPATH"] == f"{site.code}:/image/lib"
    assert "LD_PRELOAD" not in seen


@real
def test_torchrun_starts_the_ranks_of_a_node_in_one_container(site: Site, image: Path) -> None:
    package = site.code / "torch" / "distributed"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    shutil.copy(site.tools / "torchrun.py", package / "run.py")
    made = job(site, image, {"launcher": {"kind": "torchrun", "ranks_per_node": 2}, "resources": {"nodes": 2}})
    assert made.finish() == 0, made.log() + step_log(made)
    assert [made.seen(rank)["env"]["LOCAL_RANK"] for rank in range(4)] == ["0", "1", "0", "1"]


@real
def test_mounts_root_and_home_are_as_the_job_says(site: Site, image: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("data")
    mounts = [f"{tmp_path}/data:/deep/in/it:ro", f"{tmp_path}/data:/var/run/data"]
    look = (
        "cat /deep/in/it/x /run/data/x; touch /deep/in/it/y 2>/dev/null && echo wrote-ro; "
        "touch /run/data/z && echo wrote-rw; "
        "touch /usr/new 2>/dev/null && echo wrote-root; id -u; ls -d /dev/shm /proc/self/status /sys/class; "
        "stat -c %a /dev/null; python3 -c 'import getpass, os, pwd; print(pwd.getpwuid(os.getuid()).pw_uid)'"
    )
    made = job(site, image, {"command": ["bash", "-c", look]}, mounts=mounts)
    assert made.finish() == 0, made.log() + step_log(made)
    said = (made.run / "logs" / "0" / "rank-0000.log").read_text().split("\n", 1)[1]
    uid = os.getuid()
    assert said == f"datadatawrote-rw\n{uid}\n/dev/shm\n/proc/self/status\n/sys/class\n666\n{uid}\n"
    made = job(site, image, {"command": ["bash", "-c", look]}, mounts=mounts, writable=True, remap_root=True)
    assert made.finish(job_id=2) == 0, made.log(2)
    said = (made.run / "logs" / "0" / "rank-0000.log").read_text()
    assert "wrote-root" in said and "\n0\n" in said
    # What is written goes with the container.
    assert not (image / "rootfs" / "usr" / "new").exists() and not (image / "rootfs" / "deep").exists()


@real
def test_a_mounted_home_is_home(site: Site, image: Path) -> None:
    look = "import os; print(os.environ['HOME'], sorted(os.listdir(os.environ['HOME'])))"
    made = job(site, image, {"command": ["python3", "-c", look]}, mount_home=True)
    assert made.finish() == 0, made.log() + step_log(made)
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert (made.run / "logs" / "0" / "rank-0000.log").read_text().endswith(f"\n{home} {sorted(os.listdir(home))}\n")


@real
def test_secrets_arrive(site: Site, image: Path) -> None:
    given = {"preflight": {"enabled": False}, "container": {"runtime": "oci", "image": str(image)}}
    made = site.job(given, secrets={"HIDDEN": "x\ny'"})
    assert made.finish() == 0, made.log() + step_log(made)
    assert made.seen()["env"]["HIDDEN"] == "x\ny'"


@real
@pytest.mark.parametrize(
    ("program", "code"), [("raise SystemExit(7)", 7), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137)]
)
def test_exit_codes_and_signals_of_the_program_are_the_steps(site: Site, image: Path, program: str, code: int) -> None:
    made = job(site, image, {"command": ["python3", "-c", program]})
    assert made.finish() == code, made.log()


@real
def test_a_signal_to_the_task_reaches_the_program_once_and_nothing_stays(site: Site, image: Path) -> None:
    program = (
        "import os, signal, sys, time\n"
        "def end(number, frame):\n"
        "    print('got', number, os.getppid(), flush=True)\n"
        "    time.sleep(1)\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open('up', 'w').close()\n"
        "time.sleep(60)\n"
    )
    made = job(site, image, {"command": ["python3", "-c", program]})
    process = made.start()
    wait_for((made.run / "work" / "up").exists, process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    log = (made.run / "logs" / "0" / "rank-0000.log").read_text()
    assert log.count("got 15") == 1
    assert made.outcome()["ended_by"] == "signal"
    # The guard of the verdict looks four times a second whether the script has ended.
    deadline = time.monotonic() + 30
    while str(made.run) in running() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert str(made.run) not in running()


def running() -> str:
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(commands)


@real
def test_the_preflight_starts_the_container_and_says_what_is_in_it(site: Site, image: Path) -> None:
    made = job(site, image, {"preflight": {"imports": ["json"]}, "resources": {"nodes": 2}})
    assert made.finish(nodes="node1,node2") == 0, made.log() + step_log(made)
    table = (made.run / "preflight" / "0" / "table").read_text()
    assert table.count("image=ok mounts=ok oci=ok") == 2 and "json=" in table


@real
@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        ("no bash", r"node1: the container does not start: .*/bin/bash.*crun did not start a container of "),
        ("no import", r"node1: the container: cannot import absent: No module named 'absent'$"),
        (
            "stale",
            r"node1: the container: the package mine comes from \S+/dist-packages/mine/__init__.py, not from the job's",
        ),
        (
            "python",
            r"node1: the container does not start: .*the environment's Python \S+ does not start in the container",
        ),
    ],
)
def test_the_preflight_names_the_node_and_what_is_wrong_inside(
    site: Site, tmp_path: Path, image: Path, breaks: str, message: str
) -> None:
    spec: dict[str, Any] = {"preflight": {}}
    root = image / "rootfs"
    environment = False
    if breaks == "no bash":
        root = tmp_path / "bare"
        (root / "bin").mkdir(parents=True)
    elif breaks == "no import":
        spec["preflight"] = {"imports": ["absent"]}
    elif breaks == "stale":
        for folder in (site.code / "mine", tmp_path / "stale" / "mine"):
            folder.mkdir(parents=True)
            (folder / "__init__.py").touch()
        (tmp_path / "stale" / "editable_finder.py").write_text(EDITABLE)
        (tmp_path / "stale" / "editable.pth").write_text("import editable_finder\n")
    else:
        site.environment()
        spec["environment"] = {"mode": "venv"}
        # It starts on the node, and lacks a library in the image.
        python = site.store / "environments" / ENVIRONMENT_KEY / "bin" / "python"
        python.write_text(python.read_text().replace("\n", "\n[ ! -e /in-the-image ] || exit 127\n", 1))
        environment = True
    mounts = [f"{tmp_path}/stale:/usr/lib/python3/dist-packages"] if breaks == "stale" else []
    given = {**spec, "container": {"runtime": "oci", "image": str(root), "mounts": mounts}}
    made = site.job(given, environment=environment)
    assert made.finish(nodes="node1") == 69, made.log()
    assert re.search(message, made.outcome()["message"]), made.outcome()["message"]
    assert not list((made.run / "logs" / "0").glob("rank-*"))


# --- the parts of oci.py that need no crun


def test_an_image_is_a_bundle_or_a_root(tmp_path: Path) -> None:
    (tmp_path / "rootfs" / "usr").mkdir(parents=True)
    assert oci.rootfs.image_of(str(tmp_path / "rootfs")) == (str(tmp_path / "rootfs"), {})
    (tmp_path / "config.json").write_text('{"root": {"path": "rootfs"}, "process": {"env": ["A=b=c", "odd"]}}')
    assert oci.rootfs.image_of(str(tmp_path)) == (str(tmp_path / "rootfs"), {"A": "b=c"})
    for text, why in (
        ("{", "is not the configuration of an OCI bundle"),
        ("[]", "is not the configuration of an OCI bundle"),
        ('{"root": {"path": "x"}}', "has no root folder"),
        ('{"root": {"path": "."}}', "is neither an OCI bundle"),
    ):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(oci.Failure, match=why):
            oci.rootfs.image_of(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "found"),
    [("/a/b", "/a/b"), ("/var/run/x", "/run/x"), ("/lib/../x", "/usr/x"), ("/../../x", "/x"), ("/up/x", "/x")],
)
def test_a_place_in_the_image_is_never_outside_of_it(tmp_path: Path, path: str, found: str) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "run").symlink_to("/run")
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "up").symlink_to("../../..")
    assert oci.rootfs.inside(str(tmp_path), path) == found


def test_links_that_go_round_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(oci.Failure, match="in a loop of links"):
        oci.rootfs.inside(str(tmp_path), "/a/x")


def test_the_place_of_a_mount_is_made_over_the_image_and_not_in_it(tmp_path: Path) -> None:
    root, skeleton = tmp_path / "root", tmp_path / "skeleton"
    (root / "etc").mkdir(parents=True, mode=0o750)
    (root / "there").mkdir()
    skeleton.mkdir()
    for target, folder in (("/there", True), ("/etc/hosts", False), ("/a/b", True)):
        oci.rootfs.place_for(str(root), str(skeleton), target, folder)
    assert sorted(str(path.relative_to(skeleton)) for path in skeleton.rglob("*")) == ["a", "a/b", "etc", "etc/hosts"]
    assert (skeleton / "etc").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("text", "node", "count"), [("1", 0, 1), ("2(x3),1", 2, 2), ("2(x3),1", 3, 1), ("8,4", 1, 4), ("", 3, 1)]
)
def test_tasks_of_a_node(text: str, node: int, count: int) -> None:
    assert oci.tasks_here(text, node) == count


def test_containers_of_other_steps_and_users_meet_elsewhere() -> None:
    one = {"RANKZERO_RUN_DIR": "/r/1", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0"}
    others = [{**one, name: "x"} for name in one]
    places = [oci.meeting_place(environ) for environ in (one, dict(one), *others)]
    assert places[0] == places[1] and len(set(places)) == 1 + len(others)
    assert all(place.startswith("\0rankzero-") for place in places)


def test_the_drivers_libraries_are_those_of_this_machines_kind() -> None:
    listing = (
        "5 libs found in cache `/etc/ld.so.cache'\n"
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1\n"
        "\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1\n"
        "\tlibcuda.so (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so\n"
        "\tlibcudart.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.12\n"
        "\tlibc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6\n"
    )
    # The toolkit's own libraries are the image's; the driver's are the node's.
    assert oci.rootfs.nvidia_libraries(listing, "x86_64") == {
        "libnvidia-ml.so.1": "/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "libcuda.so.1": "/lib/x86_64-linux-gnu/libcuda.so.1",
    }


def test_a_user_that_the_image_does_not_know_gets_a_line(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh")
    assert oci.rootfs.users_file(str(tmp_path), "passwd", 0, "me:x:0:0::/:/bin/bash") is None
    assert oci.rootfs.users_file(str(tmp_path), "passwd", 7, "me:x:7:7::/:/bin/bash") == (
        "root:x:0:0::/root:/bin/sh\nme:x:7:7::/:/bin/bash\n"
    )
    assert oci.rootfs.users_file(str(tmp_path), "group", 7, "me:x:7:") == "me:x:7:\n"


@real
def test_a_batch_script_runs_in_the_image_and_gets_its_signal(site: Site, image: Path) -> None:
    lines = ["#!/bin/bash", "trap 'echo saved $MINE $#; exit 3' USR1", ": > ready"]
    made = job(
        site,
        image,
        {
            "script": "\n".join([*lines, "while :; do read -r -t 0.1 < <(:); done", ""]),
            "script_args": ["a b", "c"],
            "checkpoint": {"signal_before_end": 90, "signal": "USR1"},
            "monitor": {"host": 0, "gpu": 0},
        },
    )
    process = made.start()
    wait_for((made.run / "work" / "ready").exists, process)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(timeout=60) == 3, (made.log(), step_log(made))
    assert (made.run / "logs" / "0" / "rank-0000.log").read_text() == "saved of the image 2\n"
