# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an attacker plants in a store, or does to one: nothing of it runs in another user's job.

The attacker knows every key: it follows from the files of a job, which he may have read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import Environment
from ansible_collections.rankzero.slurm.plugins.module_utils.store.squash import squash
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import take_snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import project_recipe
from tests.cluster.attack import ATTACKER, ROOT, VICTIM, AttackLab, User

PROGRAM = "echo the program of the victim\n"
PYPROJECT = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\n'


class Store:
    """A victim's folders below one that the group `project` may write, made under umask 002 as by an older release."""

    def __init__(self, rig: AttackLab) -> None:
        self.rig, self.canary = rig, rig.canary()
        self.shared = rig.shared_folder(0o2775, "project")
        self.root, self.state = f"{self.shared}/store", f"{self.shared}/state"
        code = rig.site.folder / "code"
        (code / "train.sh").write_text(PROGRAM, encoding="utf-8")
        self.code = f"{self.root}/code/{take_snapshot(str(code)).digest}"
        # What lies below it belongs to the group, which may not write the folder itself.
        rig.as_victim(["sh", "-c", f"mkdir {self.state} && chmod 2755 {self.state}"])

    def made(self, *folders: str) -> None:
        self.rig.as_victim(["mkdir", "-p", self.root, *(f"{self.root}/{name}" for name in folders)], umask=0o002)

    def plant(self, path: str, text: str | None = None, mode: int = 0o755) -> str:
        return self.rig.write_as(ATTACKER, path, self.canary.command if text is None else text, mode=mode)

    def job(self, **spec: Any) -> dict[str, Any]:
        return self.rig.job(["sh", "train.sh"], **spec)

    def play(self, user: User = VICTIM, umask: int = 0o002, *arguments: str, **more: Any) -> Any:
        given = {name: more.pop(name) for name in ("environment",) if name in more}
        cluster = {"state_root": self.state, "store_root": self.root, **more}
        return self.rig.play_as(user, self.job(**given), *arguments, umask=umask, launch_cluster=cluster)


@pytest.fixture
def store(attack_lab: AttackLab) -> Store:
    return Store(attack_lab)


def project(store: Store, mode: str) -> tuple[dict[str, str], str]:
    """The section `environment` of a job, and where its environment lies."""
    folder = store.rig.site.folder / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    key = project_recipe(str(folder), vars(Environment(mode=mode))).key
    return {"mode": mode, "project": str(folder)}, f"{store.root}/environments/{key}"


# --- things planted where a launch looks for them. Each returns what is said besides the path, and parts of the job.


def planted_code_tree(store: Store) -> tuple[str, dict[str, Any]]:
    store.made("code")
    store.plant(f"{store.code}/train.sh")
    return "belongs to user attacker", {}


def planted_venv(store: Store) -> tuple[str, dict[str, Any]]:
    store.made("environments")
    environment, path = project(store, "venv")
    python = store.plant(f"{path}/bin/python", f'#!/bin/sh\n{store.canary.command}\nexec python3 "$@"\n')
    store.plant(f"{path}/env.json", json.dumps({"python": {"path": python}, "digest": "d"}))
    return "belongs to user attacker", {"environment": environment}


def planted_sealed_file(store: Store) -> tuple[str, dict[str, Any]]:
    store.made("environments")
    environment, path = project(store, "sealed")
    tree, between = store.rig.site.folder / "tree", store.rig.shared_folder()
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "python").write_text(f"#!/bin/sh\n{store.canary.command}\n", encoding="utf-8")
    (tree / "bin" / "python").chmod(0o755)
    made = store.rig.host_path(between) / "environment.sqsh"
    squash(str(tree), str(made), "zstd")
    store.rig.as_attacker(["mkdir", "-p", path])
    store.rig.as_attacker(["cp", f"{between}/environment.sqsh", path])
    said = store.rig.as_attacker(["sha256sum", f"{path}/environment.sqsh"]).stdout.split()[0]
    facts = {"file": "environment.sqsh", "sha256": said, "bytes": made.stat().st_size, "unpacked": 99, "files": 1}
    store.plant(f"{path}/env.json", json.dumps({"python": {"path": "/p"}, "digest": said, "sealed": facts}))
    return "belongs to user attacker", {"environment": environment}


def symlinked_object(store: Store) -> tuple[str, dict[str, Any]]:
    store.made("code")
    store.plant(f"{store.rig.home_of(ATTACKER)}/tree/train.sh")
    store.rig.as_attacker(["ln", "-s", f"{store.rig.home_of(ATTACKER)}/tree", store.code])
    return "is a link", {}


def replaced_file_of_a_published_snapshot(store: Store) -> tuple[str, dict[str, Any]]:
    """The folder is the victim's own, as open as it was made; the file in it is not hers."""
    store.made(f"code/{Path(store.code).name}")
    store.plant(f"{store.code}/train.sh")
    return "train.sh belongs to user attacker", {}


def edited_file_of_a_published_snapshot(store: Store) -> tuple[str, dict[str, Any]]:
    """Folder and file are the victim's own, and nobody else could write them any more; its content is another."""
    store.made(f"code/{Path(store.code).name}")
    store.rig.as_victim(["sh", "-c", f"cd {store.code} && echo old > train.sh"], umask=0o002)
    store.rig.as_attacker(
        ["sh", "-c", 'printf "%s\\n" "$1" > "$2"', "sh", store.canary.command, f"{store.code}/train.sh"]
    )
    store.rig.as_victim(["chmod", "go-w", f"{store.code}/train.sh", store.code])
    return "has other content than its name states", {}


def hard_linked_file(store: Store) -> tuple[str, dict[str, Any]]:
    """A file that is the victim's own, by owner and mode, under another name: what the attacker has had her write."""
    store.made(f"code/{Path(store.code).name}")
    store.rig.as_victim(["sh", "-c", 'printf "%s\\n" "$1" > "$2"', "sh", store.canary.command, f"{store.shared}/notes"])
    store.rig.as_victim(["ln", f"{store.shared}/notes", f"{store.code}/train.sh"])
    return "has other content than its name states", {}


def store_of_the_attacker(store: Store) -> tuple[str, dict[str, Any]]:
    store.plant(f"{store.code}/train.sh")
    store.rig.as_attacker(["chmod", "2775", store.root])
    return f"{store.root} is not yours (owner user attacker, group project, mode 2775)", {}


PLANTED: list[Callable[[Store], tuple[str, dict[str, Any]]]] = [
    planted_code_tree,
    planted_venv,
    planted_sealed_file,
    symlinked_object,
    replaced_file_of_a_published_snapshot,
    edited_file_of_a_published_snapshot,
    hard_linked_file,
    store_of_the_attacker,
]


@pytest.mark.parametrize("attack", PLANTED)
def test_what_is_planted_in_a_store_is_not_run(
    store: Store, attack: Callable[[Store], tuple[str, dict[str, Any]]]
) -> None:
    said, spec = attack(store)
    played = store.play(**spec)
    if played.rc == 0:
        store.rig.outcome_of(played.launch())
    assert store.canary.owners() == []
    assert played.rc != 0
    assert said in played.refused()
    assert "job_id" not in played.launch() or not played.launch()["job_id"]


def test_nothing_that_a_launch_has_published_can_be_edited(store: Store) -> None:
    """Under umask 002, in a folder whose group the attacker is in: the snapshot, the runtime, and the store itself."""
    first = store.play()
    assert first.rc == 0, first.output
    assert store.rig.outcome_of(first.launch())["success"]
    line = store.canary.command
    tries = {
        "edited runtime/job.sh": f"for file in {store.state}/runtime/*/start/job.sh; do echo '{line}' >> $file; done",
        "a module in runtime": f"for at in {store.state}/runtime/*; do echo x > $at/json.py; done",
        "edited snapshot": f"cd {store.code} && mv train.sh away && echo '{line}' > train.sh",
        "edited in place": f"echo '{line}' > {store.code}/train.sh",
        "swapped snapshot": f"mv {store.code} {store.shared}/away && mkdir {store.code}",
        "planted beside it": f"mkdir {store.root}/code/{'0' * 64}",
        "a runtime that is not there yet": f"mkdir {store.state}/runtime/{'0' * 32}",
    }
    done = {
        name: store.rig.as_attacker(["sh", "-c", f"set -e; {text}"], check=False).returncode
        for name, text in tries.items()
    }
    assert all(code != 0 for code in done.values()), done
    again = store.play(VICTIM, 0o002, "-e", "rerun=true")
    assert again.rc == 0, again.output
    assert store.rig.outcome_of(again.launch())["success"]
    assert store.canary.owners() == []


def test_a_runtime_that_was_edited_before_is_not_run(store: Store) -> None:
    """As an older release has left it: open to the group. It is found by what it holds, and made anew."""
    first = store.play()
    assert store.rig.outcome_of(first.launch())["success"]
    folder = store.rig.as_victim(["sh", "-c", f"echo {store.state}/runtime/*"]).stdout.strip()
    store.rig.as_victim(["chmod", "-R", "g+w", folder])
    store.rig.as_attacker(["sh", "-c", f"echo '{store.canary.command}' >> {folder}/start/job.sh"])
    again = store.play(VICTIM, 0o002, "-e", "rerun=true")
    assert again.rc == 0, again.output
    assert store.rig.outcome_of(again.launch())["success"]
    assert store.canary.owners() == []
    assert store.rig.as_victim(["stat", "-c", "%a", f"{folder}/start/job.sh"]).stdout == "644\n"


def test_what_others_have_put_into_a_trusted_store_is_passed_over(store: Store) -> None:
    rig = store.rig
    platform = f"{rig.shared_folder(0o755)}/store"
    name = Path(store.code).name
    rig.as_root(["sh", "-c", f"mkdir -p {platform}/code && chmod 1777 {platform}/code"])
    store.plant(f"{platform}/code/{name}/train.sh")
    trusted = [{"path": platform, "owners": ["root"]}]
    ways = [f"chmod 1777 {platform}/code", f"chmod 755 {platform}/code", f"chown -R root {platform}/code/{name}"]
    said = ["can be written by everybody", "belongs to user attacker", "other content than its name states"]
    for number, (way, why) in enumerate(zip(ways, said)):
        rig.as_root(["sh", "-c", way])
        played = store.play(VICTIM, 0o022, "-e", "rerun=true", stores=trusted)
        assert played.rc == 0, played.output
        launch = played.launch()
        assert why in " ".join(played.output.split()), played.output
        assert [one["store"] for one in launch["sources"]] == ([store.root] if number or launch["sources"] else [])
        assert rig.outcome_of(launch)["success"]
    assert store.canary.owners() == []
    assert f"{platform}/code" not in rig.as_victim(["cat", f"{launch['run_dir']}/job.sbatch"]).stdout


# The one in between is that of every other test.
@pytest.mark.parametrize(
    "umask", [0o002, pytest.param(0o022, marks=pytest.mark.more), 0o077], ids=lambda umask: f"umask {umask:03o}"
)
def test_one_publishes_and_another_reads(attack_lab: AttackLab, umask: int) -> None:
    """A platform team (here the other account) publishes, a user reads; neither can change what is the other's."""
    rig = attack_lab
    (rig.site.folder / "code" / "train.sh").write_text(PROGRAM, encoding="utf-8")
    platform = f"{rig.shared_folder(0o755, owner='attacker')}/store"
    published = rig.task_as(
        ATTACKER, "code_snapshot", umask=umask, src=str(rig.site.folder / "code"), store_root=platform
    )
    assert published["changed"] and published["ref"]["path"].startswith(platform)
    before = rig.as_attacker(["find", platform, "-printf", "%p %m %u\n"]).stdout
    job = rig.job(["sh", "train.sh"])
    cluster = {**rig.cluster_of(VICTIM), "stores": [{"path": platform, "owners": ["attacker"]}]}
    played = rig.play_as(VICTIM, job, umask=umask, launch_cluster=cluster)
    assert played.rc == 0, played.output
    launch = played.launch()
    assert [(one["kind"], one["store"], one["path"]) for one in launch["sources"]] == [
        ("code", platform, published["ref"]["path"])
    ]
    assert f"from the store {platform}" in played.output
    assert rig.outcome_of(launch)["success"]
    seen = json.loads(rig.as_victim(["cat", f"{launch['run_dir']}/launch.json"]).stdout)
    assert [ref["path"] for ref in seen["refs"]] == [published["ref"]["path"]]
    # Nothing of it was copied, marked or changed, and nobody else can.
    assert rig.as_attacker(["find", platform, "-printf", "%p %m %u\n"]).stdout == before
    assert not rig.host_path(f"{rig.store_root(VICTIM)}/code").exists()
    assert rig.as_victim(["touch", f"{platform}/code/x"], check=False).returncode != 0
    refused = rig.task_as(
        VICTIM, "store_prune", older_than=0, store_root=platform, state_root=rig.state_root(VICTIM), umask=umask
    )
    assert refused["failed"] and "only its owner can prune it" in refused["msg"]
    # Without the word that the owner is trusted nothing is taken from there.
    other = rig.play_as(ROOT, job, launch_cluster={**rig.cluster_of(VICTIM), "store_root": platform})
    assert other.rc != 0 and "is not yours" in other.output


def test_a_group_publishes_to_one_store_and_reads_from_it(attack_lab: AttackLab) -> None:
    """Two members of one group under umask 002: each uses what the other has made. What everybody could write is still
    refused, and so is a code tree that is not what its name says.
    """
    rig = attack_lab
    shared = rig.shared_folder(0o2775, "project", owner="victim")
    program = rig.site.folder / "code" / "train.sh"
    job = rig.job(["sh", "train.sh"])

    def play(user: User, **more: Any) -> Any:
        cluster = {"state_root": rig.state_root(user), "store_root": shared, "store_group_writable": True, **more}
        return rig.play_as(user, job, umask=0o002, launch_cluster=cluster)

    def code() -> str:
        return f"{shared}/code/{take_snapshot(str(program.parent)).digest}"

    made = []
    for maker, reader in ((VICTIM, ATTACKER), (ATTACKER, VICTIM)):
        program.write_text(f"echo made by {maker.name}\n", encoding="utf-8")
        made.append(code())
        for user in (maker, reader):
            played = play(user)
            assert played.rc == 0, played.output
            launch = played.launch()
            assert [(one["kind"], one["path"]) for one in launch["sources"]] == [("code", code())]
            assert rig.outcome_of(launch)["success"]
        owners = rig.as_root(["stat", "-c", "%U %G %a", f"{shared}/code", code(), f"{code()}/train.sh"]).stdout
        assert owners.split("\n")[0] == "victim project 2775"
        assert owners.split("\n")[2].split()[0] == maker.name
        assert rig.run_as(reader, ["sh", "-c", f"echo x >> {code()}/train.sh"], check=False).returncode != 0
    # Whoever does not say so is not let in.
    refused = play(ATTACKER, store_group_writable=False)
    assert f"{shared} is not yours" in refused.refused()
    # A member's own tree is compared with its name, and nothing that everybody could write counts.
    rig.as_attacker(["sh", "-c", f"chmod u+w {made[1]}/train.sh && echo x >> {made[1]}/train.sh"])
    assert "has other content than its name states" in play(VICTIM).refused()
    program.write_text("echo made by victim\n", encoding="utf-8")
    rig.as_victim(["chmod", "o+w", f"{made[0]}/train.sh"])
    assert "can be written by everybody" in play(ATTACKER).refused()
