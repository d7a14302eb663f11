# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script of an interactive shell, run by bash: what somebody finds who types in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import container
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import folder_of, notes, programs, session
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.shell_session import prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script, render_shell
from tests import images
from tests.golden.test_scripts import SHELLCHECK_EXCLUDED
from tests.plans import plan
from tests.stand_ins import apptainer
from tests.unit.plan.test_inside_job import planned
from tests.unit.runtime.harness import sealed_environment
from tests.unit.runtime.test_oci import why_not

GREETING = 'it\'s "quoted" $HOME\nand more # not a comment'
SHOW = 'printf "%s|" "$GREETING" "$FROM_SETUP" "$PWD" "$TOKEN" "$HOME" "${PATH%%:*}" "${IMAGE-}"; echo'


class Place:
    """A cluster's folders, and a session laid out in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.code = root / "store" / "code" / "c0de"
        self.code.mkdir(parents=True)
        (self.code / "train.py").write_text("print('train')\n")

    def plan(self, built: bool = False, **data: Any) -> Plan:
        given = {"name": "job", "command": ["train.py"], "env": {"GREETING": GREETING}, **data}
        merged = merge([Layer("job", given)])
        return plan(
            validated(merged),
            merged,
            code_key="c0de",
            environment_key="e5e5" if built else None,
            runtime_key="4444",
            state_root=str(self.root / "state"),
            store_root=str(self.root / "store"),
        )

    def lay_out(self, made: Plan, templates: str | None = None, **options: Any) -> dict[str, Any]:
        files = {name: (Path(RUNTIME) / name).read_text(encoding="utf-8") for name in programs(made)}
        files["shell.sh"] = render_shell(made, templates)
        folder = folder_of(made)
        # What lies at these paths is not looked at as a store's: its keys are no digests.
        stores = {"store_root": str(self.root / "other")}
        return prepare(
            Slurm(environment={}), folder=folder, files=files, refs=made.refs, stores=stores, inside_job=None, **options
        )

    def say(self, made: Plan, line: str, templates: str | None = None, **environment: str) -> list[str]:
        """What the shell prints for a typed line."""
        self.lay_out(made, templates)
        script = f"{folder_of(made)}/shell.sh"
        for command in (["bash", "-n", script], ["shellcheck", f"--exclude={','.join(SHELLCHECK_EXCLUDED)}", script]):
            checked = subprocess.run(command, capture_output=True, text=True, check=False)
            assert checked.returncode == 0, checked.stdout + checked.stderr
        done = subprocess.run(
            ["/bin/bash", script],
            input=line + "\n",
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"], **environment},
            check=False,
        )
        assert done.returncode == 0, done.stderr + Path(script).read_text()
        return done.stdout.rstrip("\n").split("|")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_shell_has_what_a_rank_has(place: Place, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "store" / "environments" / "e5e5").mkdir(parents=True)
    made = place.plan(
        setup={"commands": ["export FROM_SETUP='a b'"]}, secrets={"TOKEN": {"from_file": str(tmp_path / "token")}}
    )
    greeting, from_setup, folder, token, home, first, _image, _end = place.say(made, SHOW, HOME="/nowhere")
    assert (greeting, from_setup, token) == (GREETING, "a b", "t0ken")
    assert folder == f"{folder_of(made)}/work"
    assert home == os.path.expanduser("~")
    assert first == "/usr/local/bin"
    assert "t0ken" not in render_shell(made)
    assert place.say(made, "python3 train.py") == ["train"]


@pytest.mark.parametrize(("cpus", "each"), [("16", "5"), ("2", "1")])
def test_a_shell_on_whole_nodes_has_the_threads_of_a_rank(place: Place, cpus: str, each: str) -> None:
    made = place.plan(resources={"exclusive": True}, launcher={"ranks_per_node": 3})
    assert place.say(made, "echo $OMP_NUM_THREADS", SLURM_CPUS_ON_NODE=cpus) == [each]


def test_a_shell_has_its_sealed_environment_mounted_as_long_as_it_lives(tmp_path: Path) -> None:
    if shutil.which("mksquashfs") is None or shutil.which("unsquashfs") is None:
        pytest.skip("no squashfs-tools on this machine")
    site = Place(tmp_path)
    sealed_environment(site.root / "store" / "environments" / "e5e5")
    made = site.plan(built=True, environment={"mode": "sealed"})
    python, data = site.say(
        made,
        'echo "$(command -v python)|$(cat "$RANKZERO_SEALED/data")"',
        SLURM_JOB_ID="4711",
        SLURM_NODEID="0",
        SLURMD_NODENAME="n1",
    )
    assert re.fullmatch(rf"/tmp/rankzero-{os.getuid()}-4711-\w{{8}}/sealed/bin/python", python), python
    assert data == "of the environment"
    until = time.monotonic() + 20
    while os.path.lexists(python.rsplit("/", 3)[0]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not os.path.lexists(python.rsplit("/", 3)[0])


def test_the_environments_programs_come_first(place: Place) -> None:
    assert f"export PATH={place.root}/store/environments/e5e5/bin:" in render_shell(place.plan(True))


def test_an_environment_of_the_sites_own_is_entered_as_the_job_does(place: Place, tmp_path: Path) -> None:
    conda = tmp_path / "conda"
    scripts = conda / "etc" / "conda" / "activate.d"
    for folder in (conda / "bin", conda / "conda-meta", scripts):
        folder.mkdir(parents=True)
    (conda / "bin" / "python").symlink_to("/usr/bin/python3")
    (scripts / "libs.sh").write_text('export FROM_CONDA="$CONDA_PREFIX and $NOBODY_SET_THIS"\n')
    made = place.plan(environment={"mode": "path", "path": str(conda)})
    said = place.say(made, 'printf "%s|%s" "$FROM_CONDA" "$(command -v python)"; type -t rankzero_adopt || true')
    assert said == [f"{conda} and ", f"{conda}/bin/python"]


def test_the_working_directory_may_be_written_and_keeps_what_is_in_it(place: Place) -> None:
    made = place.plan()
    assert place.lay_out(made, check_mode=True)["changed"] is True
    assert not (place.root / "state").exists()
    assert place.lay_out(made)["changed"] is True
    work = Path(folder_of(made)) / "work"
    (work / "train.py").unlink()
    (work / "train.py").write_text("mine")
    assert place.lay_out(made)["changed"] is False
    assert (work / "train.py").read_text() == "mine"
    assert (place.code / "train.py").read_text() != "mine"


def test_what_is_missing_on_the_cluster_is_named_and_nothing_is_written(place: Place) -> None:
    result = place.lay_out(place.plan(built=True))
    assert ([ref["kind"] for ref in result["missing"]], result["changed"]) == (["environment"], False)
    assert not (place.root / "state").exists()


def test_a_state_root_that_cannot_be_written_is_named(place: Place) -> None:
    (place.root / "state").write_text("a file")
    with pytest.raises(RankzeroError, match="state_root: cannot write"):
        place.lay_out(place.plan())


def test_a_sites_own_blocks_count_here_too(place: Place, tmp_path: Path) -> None:
    site = tmp_path / "templates"
    site.mkdir()
    (site / "job.sbatch.j2").write_text(
        '{% extends "rankzero/job.sbatch.j2" %}\n'
        '{% block setup %}{{ super() }}\nexport FROM_SETUP="$FROM_SETUP and the site\'s"\n{% endblock %}\n'
    )
    made = place.plan(setup={"commands": ["export FROM_SETUP=mine"]})
    _greeting, from_setup, *_rest = place.say(made, SHOW, str(site))
    assert from_setup == "mine and the site's"


def test_a_template_that_was_edited_counts_in_the_same_process(place: Place, tmp_path: Path) -> None:
    """Compiled templates are kept by their text: neither the file's time nor its length tells."""
    template = tmp_path / "job.sbatch.j2"
    for word in ("one", "two", "one"):
        template.write_text(
            f'{{% extends "rankzero/job.sbatch.j2" %}}\n{{% block setup %}}\nexport OWN={word}\n{{% endblock %}}\n'
        )
        os.utime(template, (1, 1))
        assert f"\nexport OWN={word}\n" in render_script(place.plan(), str(tmp_path))


def test_in_an_apptainer_the_images_values_do_not_win(place: Place, tmp_path: Path) -> None:
    image = tmp_path / "image.sif"
    image.write_text("GREETING=of the image\nIMAGE=inside\nFROM_SETUP=of the image\n")
    tools = apptainer(tmp_path / "bin")
    made = place.plan(
        container={"runtime": "apptainer", "image": str(image)},
        setup={"commands": [f'export PATH="{tools.parent}:$PATH"', "export FROM_SETUP=set"]},
    )
    greeting, _setup, folder, _token, home, _first, inside, _end = place.say(made, SHOW)
    assert (greeting, inside) == (GREETING, "inside")
    assert folder == f"{folder_of(made)}/work"
    assert home == f"{folder_of(made)}/home"
    assert (Path(home) / ".cache").is_dir()


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
def test_in_an_oci_image_the_shell_is_inside_and_its_values_are_the_jobs(place: Place, tmp_path: Path) -> None:
    image = images.built(tmp_path / "made", {"PATH": "/usr/bin", "GREETING": "of the image", "IMAGE": "inside"}, "oci")[
        "oci"
    ]
    made = place.plan(
        container={"runtime": "oci", "image": str(image), "env": ["FROM_SETUP"]},
        setup={"commands": ["export FROM_SETUP='a b'"]},
        parallelism={"tensor": 2},
        resources={"gpus_per_node": 2},
        checkpoint={"dir": str(tmp_path / "checkpoints")},
    )
    line = f'{SHOW[:-6]} "$RANKZERO_TP" "$RANKZERO_CHECKPOINT_DIR" "${{RANKZERO_KEPT_FROM_SETUP-}}" /in-the*; echo'
    greeting, setup, folder, _token, home, first, inside, tp, checkpoints, kept, marker, _end = place.say(made, line)
    assert (greeting, setup, inside) == (GREETING, "a b", "inside")
    assert (folder, home) == (f"{folder_of(made)}/work", f"{folder_of(made)}/home")
    assert (first, tp, checkpoints, kept) == ("/usr/bin", "2", str(tmp_path / "checkpoints"), "")
    assert marker == "/in-the-image"
    assert place.say(made, "python3 train.py") == ["train"]
    mounts = Path("/proc/mounts").read_text()
    assert str(place.root) not in mounts, "what lay over the folders is gone with the shell"


def test_a_node_without_apptainer_says_so(place: Place) -> None:
    made = place.plan(container={"runtime": "apptainer", "image": "/i.sif"})
    place.lay_out(made)
    script = f"{folder_of(made)}/shell.sh"
    # The script sets a PATH of its own, in which this machine may have the command.
    text = Path(script).read_text().replace('export PATH="', 'export PATH="/nowhere"; : "')
    done = subprocess.run(["/bin/bash", "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert "name its module in setup.modules" in done.stdout


def test_in_a_pyxis_container_there_is_no_sealed_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "HIDDEN", "/nowhere")  # tests live in /tmp
    pyxis = {"runtime": "pyxis", "image": "/i.sqsh"}
    made = Place(tmp_path).plan(built=True, container=pyxis, environment={"mode": "sealed"})
    assert "not in the shell: the environment, which a job mounts before it enters the container" in notes(made)
    text = render_shell(made)
    assert "sealed.py" not in text
    assert "rankzero_seal() { :; }\n" in text and 'RANKZERO_SEALED"' not in text


def test_in_a_pyxis_container_the_script_is_inside_already() -> None:
    made = planned(container={"runtime": "pyxis", "image": "/i.sqsh"}, setup={"commands": ["export FROM_SETUP=x"]})
    # enroot's configuration is often below the home.
    assert "--export=TERM,LANG,HOME" in session(made).shell
    assert "--export=TERM,LANG" in session(planned()).shell
    text = render_shell(made)
    assert "FROM_SETUP" not in text, "setup is for the node"
    assert "getent" not in text, "the image may not have it"
    assert 'export HOME="$RANKZERO_RUN_DIR/home"' in text
    assert f"cd {folder_of(made)}/work " in text
