# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""code_snapshot and uv_environment through Ansible, on the lab's head, and what the nodes have of it.

The packages are small wheels in a directory: nothing is downloaded, so that a test knows who resolved what.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import recording
from tests.cluster.conftest import LabCluster
from tests.cluster.lab_user import LabUser
from tests.cluster.launching import Play, Played
from tests.repository import BIN
from tests.unit.pyenv.conftest import make_wheel

CODE = "rankzero.slurm.code_snapshot"
ENVIRONMENT = "rankzero.slurm.uv_environment"
#: A host without a way out and without settings of pip: what an air-gapped login node is.
CUT_OFF = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"),
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_FIND_LINKS": "",
}


class Desk:
    """A user's folder with a project, a directory of wheels in a place that the head sees, too, and plays of single
    tasks on the lab's head.
    """

    def __init__(self, lab: LabCluster, folder: Path, place: Path) -> None:
        self.lab = lab
        self.user = LabUser(lab)
        self.folder = folder
        self.place = place
        own = f"{folder.name}-{secrets.token_hex(3)}"  # a kept lab remembers the stores of earlier sessions
        place_inside = self.user.place("environment")
        self.inside = f"{place_inside}/{own}"
        self.store = lab.shared / Path(place_inside).name / own / "store"
        self.project = folder / "project"
        self.project.mkdir()
        self.pyproject("alpha")
        self.wheels = place / "wheels"
        make_wheel(self.wheels, "alpha", "1.0", {"alpha.py": "import beta\nVALUE = beta.VALUE + 1\n"}, ("beta",))
        make_wheel(self.wheels, "beta", "2.0", {"beta.py": "VALUE = 1\n"})
        self.sources = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        self._plays = 0

    def pyproject(self, *dependencies: str) -> None:
        text = f'[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = {list(dependencies)}\n'
        text += '[project.optional-dependencies]\nmore = ["gamma"]\n'
        (self.project / "pyproject.toml").write_text(text, encoding="utf-8")

    def play(
        self,
        module: str,
        *arguments: str,
        on_host: Mapping[str, str] | None = None,
        here: Mapping[str, str] | None = None,
        shell: str | None = None,
        **options: Any,
    ) -> Played:
        """Run one task; `on_host` and `here` are variables of its environment on the head and on the controller."""
        self._plays += 1
        task = {module: {"store_root": f"{self.inside}/store", **options}, "environment": dict(on_host or {})}
        play = [{"hosts": "slurm_login", "gather_facts": False, "tasks": [task]}]
        path = self.folder / f"play-{self._plays}.yml"
        path.write_text(json.dumps(play), encoding="utf-8")  # JSON is YAML
        record = self.folder / f"record-{self._plays}"
        where = ["-i", str(self.lab.inventory), *self.user.inventory(self.folder)]
        argv = [str(BIN / "ansible-playbook"), *where, str(path), *arguments]
        if shell:
            argv += ["-e", json.dumps({"ansible_shell_executable": shell})]
        settings = {
            **os.environ,
            **recording.settings(record),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            **(here or {}),
        }
        return Play(argv, self.folder, settings, record).finish()

    def result(self, module: str, *arguments: str, **options: Any) -> dict[str, Any]:
        played = self.play(module, *arguments, **options)
        assert played.rc == 0, played.output
        return played.results(module)[-1]

    def refused(self, module: str, **options: Any) -> str:
        played = self.play(module, **options)
        assert played.rc != 0, played.output
        return str(played.results(module)[-1]["msg"])

    def value_on(self, node: str, path: str) -> str:
        done = self.lab.node(node, [f"{path}/bin/python", "-c", "import alpha; print(alpha.VALUE)"])
        return str(done.stdout).strip()


@pytest.fixture
def desk(lab: LabCluster, tmp_path: Path, open_place: Path) -> Desk:
    return Desk(lab, tmp_path, open_place)


def test_a_snapshot_is_sent_once_and_every_node_reads_it(desk: Desk) -> None:
    (desk.project / "train.py").write_text("print('hello from the snapshot')\n", encoding="utf-8")
    (desk.project / "notes.txt").write_text("not code\n", encoding="utf-8")
    options = {"src": str(desk.project), "exclude": ["/notes.txt"]}
    played = desk.play(CODE, "--check", "--diff", **options)
    planned = played.results(CODE)[-1]
    assert (planned["changed"], planned["ref"]["present"]) == (True, False)
    assert " train.py\n" in played.output and " notes.txt\n" not in played.output
    assert not desk.store.exists()

    sent = desk.result(CODE, **options)
    assert sent["ref"] == {**planned["ref"], "present": True}
    assert sent["code"]["files"] == 2
    path = sent["ref"]["path"]
    for node in desk.lab.nodes[:2]:
        assert "hello" in desk.lab.node(node, ["/usr/bin/python3", f"{path}/train.py"]).stdout
    again = desk.result(CODE, **options)
    assert (again["changed"], again["ref"]) == (False, sent["ref"])

    assert "at no commit of a git work tree" in desk.refused(CODE, dirty="refuse", **options)
    assert "only with state: absent" in desk.refused(CODE, key=sent["ref"]["key"])
    gone = desk.result(CODE, state="absent", key=sent["ref"]["key"])
    assert (gone["changed"], gone["ref"]) == (True, planned["ref"])
    assert list((desk.store / "code").iterdir()) == []


def test_the_head_builds_and_air_gapped_nodes_run(desk: Desk) -> None:
    options = {"project": str(desk.project), "on_host": desk.sources}
    planned = desk.result(ENVIRONMENT, "--check", **options)
    assert (planned["changed"], planned["ref"]["present"]) == (True, False)
    assert not desk.store.exists()

    built = desk.result(ENVIRONMENT, download="head", **options)
    assert built["changed"]
    assert built["environment"]["downloaded_by"] == "head"
    assert {**built["ref"], "present": False, "digest": None} == planned["ref"]
    for node in desk.lab.nodes[:2]:
        assert desk.value_on(node, built["ref"]["path"]) == "2"

    again = desk.result(ENVIRONMENT, **options)
    assert (again["changed"], again["ref"]) == (False, built["ref"])
    gone = desk.result(ENVIRONMENT, state="absent", **options)
    assert (gone["changed"], gone["ref"]) == (True, planned["ref"])


# A head that builds stands above.
@pytest.mark.parametrize("by", [pytest.param("head", marks=pytest.mark.more), "controller"])
def test_air_gapped_nodes_run_a_requirements_file(desk: Desk, by: str) -> None:
    """Its constraint holds wherever it is resolved, and for the packages from which nodes build."""
    make_wheel(desk.wheels, "beta", "3.0", {"beta.py": "VALUE = 2\n"})
    (desk.project / "requirements.txt").write_text("alpha  # the newest\n-c bounds.txt\n", encoding="utf-8")
    (desk.project / "bounds.txt").write_text("beta<3\n", encoding="utf-8")
    sources = {"on_host": desk.sources} if by == "head" else {"on_host": CUT_OFF, "here": desk.sources}
    options = {"project": str(desk.project), "requirements": "requirements.txt", **sources}
    built = desk.result(ENVIRONMENT, **options)
    assert built["environment"]["downloaded_by"] == by
    assert built["environment"]["packages"] == {"alpha": "1.0", "beta": "2.0"}
    assert desk.value_on(desk.lab.nodes[0], built["ref"]["path"]) == "2"
    assert not desk.result(ENVIRONMENT, **options)["changed"]
    packages = desk.result(ENVIRONMENT, mode="wheelhouse", **options)["packages"]
    assert packages["packages"] == {"alpha": "1.0", "beta": "2.0"}


def test_a_sealed_environment_is_one_file_that_a_second_task_leaves_alone(desk: Desk) -> None:
    if shutil.which("mksquashfs") is None:
        pytest.skip("mksquashfs is not on this machine (package squashfs-tools)")
    chosen = {"mode": "sealed", "compression": "lz4", "interpreter": "copied"}
    options = {"project": str(desk.project), "on_host": desk.sources, **chosen}
    built = desk.result(ENVIRONMENT, **options)
    folder = desk.store / "environments" / built["ref"]["key"]
    assert sorted(path.name for path in folder.iterdir()) == ["env.json", "environment.sqsh"]
    assert built["ref"]["digest"] == built["environment"]["sealed"]["sha256"]
    assert built["environment"]["sealed"]["compression"] == "lz4"
    again = desk.result(ENVIRONMENT, **options)
    assert (again["changed"], again["ref"]) == (False, built["ref"])


def test_extras_and_torch_are_other_environments(desk: Desk) -> None:
    make_wheel(desk.wheels, "gamma", "3.0", {"gamma.py": ""})
    make_wheel(desk.wheels, "torch", "2.9.0+cpu", {"torch.py": ""})
    desk.pyproject("torch>=2")
    plain = desk.result(ENVIRONMENT, project=str(desk.project), on_host=desk.sources)
    more = desk.result(ENVIRONMENT, project=str(desk.project), extras=["more"], torch="cpu", on_host=desk.sources)
    assert plain["environment"]["packages"] == {"torch": "2.9.0+cpu"}
    assert more["environment"]["packages"] == {"gamma": "3.0", "torch": "2.9.0+cpu"}
    assert plain["ref"]["key"] != more["ref"]["key"]


def test_a_head_without_a_way_out_uses_wheels_that_it_sees_at_the_controller(desk: Desk) -> None:
    built = desk.result(ENVIRONMENT, project=str(desk.project), on_host=CUT_OFF, here=desk.sources)
    assert built["environment"]["downloaded_by"] == "controller"
    assert desk.value_on(desk.lab.nodes[0], built["ref"]["path"]) == "2"


def blind(desk: Desk, folder: Path) -> str:
    """A shell on the head that does not see a folder of the controller."""
    if os.geteuid() != 0:
        pytest.skip("hiding a directory from the head needs a mount, and that needs root")
    folder.mkdir(exist_ok=True)
    shell = desk.place / "blind.sh"
    inside = desk.place / "inside.sh"
    hiding = f"mount -t tmpfs none {folder} && exec /bin/sh"
    inside.write_text(f'exec unshare -m /bin/sh -c \'{hiding} "$@"\' sh "$@"\n', encoding="utf-8")
    # Ansible's become calls it a second time, as the user.
    again = '[ "$(id -u)" = 0 ] || exec /bin/sh "$@"'
    shell.write_text(f'#!/bin/sh\n{again}\nexec {desk.lab.shell} {inside} "$@"\n', encoding="utf-8")
    shell.chmod(0o755)
    return str(shell)


def test_wheels_travel_to_a_head_that_does_not_see_them(desk: Desk) -> None:
    shell = blind(desk, desk.wheels)
    options = {"project": str(desk.project), "on_host": CUT_OFF, "here": desk.sources, "shell": shell}
    played = desk.play(ENVIRONMENT, download="controller", **options)
    assert played.rc == 0, played.output
    assert "sending 2 wheels" in played.output
    built = played.results(ENVIRONMENT)[-1]
    assert desk.value_on(desk.lab.nodes[0], built["ref"]["path"]) == "2"


def test_a_set_of_packages_travels_to_a_head_without_a_way_out(desk: Desk) -> None:
    """Made on the controller for the head's Python, and sent."""
    cut_off = {**CUT_OFF, "UV_HTTP_RETRIES": "0"}
    options = {"project": str(desk.project), "on_host": cut_off, "here": desk.sources}
    planned = desk.result(ENVIRONMENT, "--check", mode="wheelhouse", **options)
    played = desk.play(ENVIRONMENT, mode="wheelhouse", shell=blind(desk, desk.folder / "cache"), **options)
    assert played.rc == 0, played.output
    assert "; fetched here" in played.output and "sending " in played.output
    made = played.results(ENVIRONMENT)[-1]
    assert made["changed"] and made["packages"]["packages"] == {"alpha": "1.0", "beta": "2.0"}
    assert planned["ref"] == {**made["ref"], "present": False, "digest": None}
    again = desk.result(ENVIRONMENT, mode="wheelhouse", **options)
    assert (again["changed"], again["ref"]) == (False, made["ref"])
    gone = desk.result(ENVIRONMENT, mode="wheelhouse", state="absent", key=made["ref"]["key"])
    assert (gone["changed"], gone["ref"]) == (True, planned["ref"])
    desk.pyproject("beta")  # what nobody has fetched yet
    assert "a package source cannot be reached" in desk.refused(
        ENVIRONMENT, mode="wheelhouse", project=str(desk.project), on_host=cut_off, here=cut_off
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "wheelhouse", "x_request": {"offer": {"folder": "/x", "sha256": "y"}}}, "x_request"),
        ({"mode": "cache", "source": "/nonexistent"}, "source: /nonexistent on this host is neither a set of packages"),
        ({"platform": "x86_64-manylinux_2_28"}, "platform: requires mode cache or wheelhouse"),
        ({"mode": "conda", "file": "a.yml", "torch": "cpu"}, "torch: nothing for mode conda"),
    ],
)
def test_bad_options_of_the_modes(desk: Desk, options: dict[str, Any], said: str) -> None:
    assert said in desk.refused(ENVIRONMENT, **{"project": str(desk.project), "on_host": desk.sources, **options})


def test_what_nobody_reaches_is_said(desk: Desk) -> None:
    said = desk.refused(ENVIRONMENT, project=str(desk.project), on_host=CUT_OFF, here=CUT_OFF)
    assert "a package source cannot be reached" in said
    assert "alpha" in said
    assert list((desk.store / "environments").iterdir()) == []


def test_a_task_cannot_speak_for_the_action(desk: Desk) -> None:
    assert "x_request" in desk.refused(CODE, src=str(desk.project), x_request={"digest": "0" * 64, "archive": "/x"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"project": "/nonexistent"}, "environment.project: there is no pyproject.toml in /nonexistent"),
        ({"python": "3.99"}, "environment.python: 3.99: no suitable Python on this host"),
        ({"python": "newest"}, "environment.python: 'newest' is not a Python version"),
        ({"torch": "gpu"}, "environment.torch: 'gpu' is not a build of torch"),
        ({"uv": "/nonexistent/uv"}, "uv: '/nonexistent/uv' does not answer `uv --version`"),
        ({"download": "sometimes"}, "download"),
        ({"store_root": "store"}, "store_root: 'store' is not an absolute path on the cluster"),
        ({"extra": ["more"]}, "extra"),
        ({"mode": "sealed", "compression": "gzip"}, "compression"),
        ({"x_request": {"pyproject": "", "uv": "/bin/false"}}, "x_request"),
    ],
)
def test_bad_options(desk: Desk, options: dict[str, Any], said: str) -> None:
    refused = desk.refused(ENVIRONMENT, **{"project": str(desk.project), "on_host": desk.sources, **options})
    assert said in refused
