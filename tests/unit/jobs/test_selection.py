# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook works on: a selector of the command line goes before the inventory; several clusters need a choice.

Over all playbooks and all verbs of the command.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.selection import (
    REFINING,
    SELECTORS,
    selected,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.clusters import (
    OF_ALL,
    ONE_CLUSTER,
    refuse_clusters,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import PLAYBOOKS
from rankzero.errors import UsageError
from rankzero.parsing import parse
from rankzero.verbs import PLAYBOOKS as VERBS
from rankzero.verbs import call_of
from tests.repository import ROOT, files, load_yaml

NAMES = [name for row in SELECTORS for name in row]
#: Playbook -> the selectors that it takes.
TAKEN = {playbook: [name for name in NAMES if name in known] for playbook, known in PLAYBOOKS.items()}
#: How each verb is typed with something to work on.
WORDS = {
    **dict.fromkeys(("ls", "attach", "logs", "why", "compare", "report", "sync", "notify", "cancel", "pull"), "1234"),
    **dict.fromkeys(("run", "plan", "shell", "sweep", "pipeline"), "jobs/train.yml"),
    "reconcile": "jobs",
    "usage": "gpt",
}
#: The playbooks whose own tasks pass selectors to a module; those that launch have the role's rule for `job`.
ACTING = [
    name for name, taken in TAKEN.items() if {"launch_name", "launches"} & {*taken} and name not in ("usage", "compare")
]
OMITTED = "(omitted)"


def passed(playbook: str, extra: dict[str, str], inventory: dict[str, str]) -> dict[str, set[str]]:
    """Variable -> its values that reach a module of the playbook, as its tasks and their conditions say."""
    variables = {**inventory, **extra}
    chosen = selected(playbook, extra, variables)
    environment = jinja2.Environment(undefined=jinja2.ChainableUndefined)
    environment.filters["bool"] = bool
    shown = {**variables, "rankzero_selected": chosen, "omit": OMITTED, "launch_cluster": {}}
    values: dict[str, set[str]] = {}
    for play in load_yaml(f"playbooks/{playbook}.yml"):
        for task in play.get("tasks", []):
            condition = str(task.get("when", "true"))
            if "rankzero_selected" in condition and not environment.compile_expression(condition)(**shown):
                continue
            included = str(task.get("ansible.builtin.include_tasks", ""))
            if included.endswith("cancel_job.yml"):
                values.setdefault("job", set()).add(str(shown["job"]))
            for module, options in task.items():
                if not module.startswith("rankzero.slurm.") or not isinstance(options, dict):
                    continue
                for name in (*NAMES, *REFINING):
                    texts = [str(text) for text in options.values() if f"{name} if" in str(text)]
                    values.setdefault(name, set()).update(environment.from_string(text).render(shown) for text in texts)
    return {name: found - {OMITTED} for name, found in values.items() if found - {OMITTED}}


@pytest.mark.parametrize("playbook", ACTING)
def test_a_selector_of_the_command_line_goes_before_every_variable(playbook: str) -> None:
    """Whatever else the inventory defines: `job`, as six examples do, or another name, id, folder or key."""
    taken = TAKEN[playbook]
    inventory = {name: f"inventory's {name}" for name in (*taken, *REFINING)}
    for name in taken:
        reached = passed(playbook, {name: "mine"}, inventory)
        assert reached == {name: {"mine"}}, (playbook, name, reached)
    if "key" in PLAYBOOKS[playbook]:
        both = {"launch_name": "mine", "key": "abcd"}
        assert passed(playbook, both, inventory) == {"launch_name": {"mine"}, "key": {"abcd"}}
        refined = {"launch_name": {inventory["launch_name"]}, "key": {"abcd"}}
        assert passed(playbook, {"key": "abcd"}, inventory) == refined, "a key alone refines the inventory's name"


@pytest.mark.parametrize("playbook", [name for name, taken in TAKEN.items() if len(taken) > 1])
def test_two_selectors_are_an_error_that_names_both(playbook: str) -> None:
    alone = [name for name in TAKEN[playbook] if name != "key"]
    for one, other in itertools.combinations(alone, 2):
        with pytest.raises(RankzeroError, match=f"-?e? ?{one} and .*{other}") as raised:
            selected(playbook, [one, other], [one, other])
        assert "Nothing was done" in raised.value.message
    if "key" in PLAYBOOKS[playbook]:
        with pytest.raises(RankzeroError, match="job_id and key"):
            selected(playbook, ["job_id", "key"], ["job_id", "key"])
        with pytest.raises(RankzeroError, match=r"job_id and run_dir.*inventory"):
            selected(playbook, [], ["job_id", "run_dir"])


def test_the_shipped_inventories_that_define_a_job() -> None:
    """`-e launch_name=wc-other` is not the job of the inventory."""
    found = [path for path in files("examples/", ".yml") if "/group_vars/" in path and "job" in (load_yaml(path) or {})]
    assert len(found) >= 6, found
    for path in found:
        inventory = {name: str(value) for name, value in load_yaml(path).items()}
        for name in ("launch_name", "job_id", "run_dir"):
            assert passed("cancel", {name: "wc-other"}, inventory) == {name: {"wc-other"}}, path
        assert passed("cancel", {"launch_name": "wc", "key": "ab"}, inventory) == {"launch_name": {"wc"}, "key": {"ab"}}
        assert set(passed("cancel", {}, inventory)) == {"job"}, path


def test_every_task_reads_its_selectors_through_the_choice() -> None:
    """A new playbook or option cannot pass a selector of the inventory by itself."""
    wrong = []
    for path in files("playbooks/", ".yml"):
        name = Path(path).stem
        rows = {row for row in SELECTORS for one in row if one in TAKEN.get(name, [])}
        if path.count("/") > 1 or len(rows) < 2:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        wrong += [f"{path}: {one}" for one in (*TAKEN[name], *REFINING) if f"{one} | default" in text]
    assert not wrong, wrong


@pytest.mark.parametrize("verb", WORDS)
def test_a_verb_takes_no_second_selector_with_e(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "train.yml").write_text("name: gpt\ncommand: [train.py]\n")
    words = [verb, *WORDS[verb].split()]
    playbook = call_of(parse(words)).playbook
    for name in TAKEN[playbook]:
        with pytest.raises((UsageError, RankzeroError), match=name):
            call = call_of(parse([*words, "-e", f"{name}=other"]))
            given = {**call.variables, **call.typed}
            selected(playbook, given, given)


def test_every_verb_is_among_them() -> None:
    assert set(WORDS) | {"lab"} == set(VERBS)


class Inventory:
    """Two login nodes of cluster alpha, one of another cluster without a name."""

    def __init__(self, *hosts: str, **folders: str) -> None:
        clusters = {"a1": "alpha", "a2": "alpha"}
        known: dict[str, dict[str, Any]] = {
            host: {
                **({"slurm_cluster": clusters[host]} if host in clusters else {}),
                **({"reconcile_jobs": folders[host]} if host in folders else {}),
            }
            for host in hosts
        }
        groups = {"slurm_login": list(hosts), "alpha": [host for host in hosts if host in clusters]}
        self.task_vars: dict[str, Any] = {"hostvars": known, "ansible_play_hosts_all": list(hosts), "groups": groups}


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_several_clusters_need_a_choice(playbook: str) -> None:
    refuse_clusters(playbook, {}, Inventory("a1", "a2").task_vars)
    two = Inventory("a1", "a2", "b").task_vars
    refuse_clusters(playbook, {"cluster": "slurm_login"}, two)
    if playbook in OF_ALL:
        refuse_clusters(playbook, {}, two)
    else:
        with pytest.raises(RankzeroError) as raised:
            refuse_clusters(playbook, {}, two)
        for word in ("2 clusters", "alpha (host a1), b", "-e cluster=", "-c HOST", "Nothing was done"):
            assert word in raised.value.message
    with pytest.raises(RankzeroError, match="'slurm_login' is 2 clusters"):
        refuse_clusters(playbook, {"cluster": "slurm_login", ONE_CLUSTER: True}, two)


@pytest.mark.parametrize(("chosen", "held"), [
    (None, False), ("b", False), ("alpha", False), ("alpha:none", False), ("{{ all }}", False),
    ("slurm_login", True), ("alpha:b", True), ("a1, a2,b", True),
])  # fmt: skip
def test_in_a_play_of_ones_own_the_variable_cluster_names_them_all(chosen: str | None, held: bool) -> None:
    refuse_clusters(None, {}, Inventory("a1", "a2").task_vars)
    two = Inventory("a1", "a2", "b").task_vars
    two.update({} if chosen is None else {"cluster": chosen})
    if held:
        refuse_clusters(None, {}, two)
        return
    with pytest.raises(RankzeroError) as raised:
        refuse_clusters(None, {"cluster": chosen}, two)
    for word in ("2 clusters", "alpha (host a1), b", "--limit HOST", "vars: {cluster: GROUP}", "Nothing was done"):
        assert word in raised.value.message


def test_a_folder_for_each_cluster_is_a_choice() -> None:
    apart = Inventory("a1", "a2", "b", a1="jobs/alpha", a2="jobs/alpha", b="jobs/beta").task_vars
    refuse_clusters("reconcile", {}, apart)
    for variables, extra in (
        (apart, {"jobs": "jobs"}),
        (apart, {"reconcile_jobs": "jobs"}),
        (Inventory("a1", "b", a1="jobs", b="jobs").task_vars, {}),
    ):
        with pytest.raises(RankzeroError, match="2 clusters"):
            refuse_clusters("reconcile", extra, variables)


def test_the_inventories_of_the_examples_are_one_cluster_each() -> None:
    for path in files("examples/", ".yml"):
        if "/inventory/" in path and path.count("/") == 3:
            content = yaml.safe_load((ROOT / path).read_text(encoding="utf-8")) or {}
            group = content.get("slurm_login") if isinstance(content, dict) else None
            assert len((group or {}).get("hosts") or {}) <= 1, path
