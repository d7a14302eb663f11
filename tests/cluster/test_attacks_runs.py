# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an attacker plants where runs are recorded: nothing of it is executed, believed, followed, or waited for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cluster.attack import ATTACKER, ROOT, VICTIM, AttackLab, User
from tests.repository import ROOT as CHECKOUT

NAME, KEY = "gpt", "0123456789abcdef"
PROVEN = json.dumps({"job_id": "7", "attempt": 0, "success": True, "message": "planted", "ended_by": "program"})
EVENT = json.dumps({"event": "submitted", "time": 1700000000, "job_id": "7"})
EXCLUSION = json.dumps({"node": "node01", "reason": "planted", "time": 1700000000, "expires": 9999999999})


@dataclass(frozen=True)
class Plant:
    """What the attacker does ($STATE, $RUN, $SECRET, $CANARY), and who looks at what then.

    `into`: a state root of the victim that the group of a project may write, as an old release made it under umask 002
    (group), one of the attacker's own (own), or one that the attacker was faster to make (first). `look`: a look of
    state_reader.py at `at`. `rest`: the believed part, where something may be believed.
    """

    script: str
    into: str = "group"
    look: str = "runs"
    at: str = "$STATE"
    by: User = VICTIM
    believed: Any = None


def rows(*expected: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(expected)


UNTRUSTED = {"standing": "untrusted", "success": False, "job_id": None, "events": 0}
#: What a look at the attacker's own state root says: the honest run beside the bad one is reported as usual.
PLANTS: dict[str, Plant] = {
    "a verdict in a folder of the group": Plant(f"printf %s '{PROVEN}' > $RUN/outcome.json"),
    "a claim in a folder of the group": Plant("echo '1 lab 7' > $RUN/claim"),
    "a line in a journal of the group": Plant(f"printf '%s\\n' '{EVENT}' >> $RUN/journal.jsonl"),
    "a generation of the attacker's own": Plant(
        f"mkdir $RUN/../2 && printf %s '{PROVEN}' > $RUN/../2/outcome.json", look="known", at="$RUN/.."
    ),
    "a folder for a generation that is not whole yet": Plant("mkdir $RUN/../.new-head-1-1", look="known", at="$RUN/.."),
    "an exclusion for 260 years": Plant(
        f"mkdir -p $STATE/clusters/lab/nodes && printf %s '{EXCLUSION}' > $STATE/clusters/lab/nodes/node01.json",
        look="excluded",
    ),
    "the limits of the cluster": Plant(
        'mkdir -p $STATE/cache && python3 -c \'import json, time; none = {}; print(json.dumps({"time": time.time(),'
        ' "knowledge": {"settings": {"a": "planted"}, "partitions": none, "associations": None,'
        ' "qos": none, "unknown": []}}))\' > $STATE/cache/limits.json',
        look="limits",
    ),
    "an entry of a set of specs": Plant(
        "place=$STATE/sets/nightly-$(printf nightly | sha256sum | cut -c1-16)/gpt && mkdir -p $place &&"
        ' printf %s \'{"set": "nightly", "time": 5, "name": "gpt"}\' > $place/0123456789abcdef.json',
        look="registered",
    ),
    "the record of a sweep": Plant(
        'mkdir $RUN/../../.sweep-0123456789abcdef && printf %s \'{"name": "gpt", "key": "0", "elements": [],'
        ' "metric": null, "goal": "min", "artifact": null}\' > $RUN/../../.sweep-0123456789abcdef/sweep.json',
        look="sweep",
        at="$RUN/../../.sweep-0123456789abcdef",
    ),
    "a journal that is a link to a file of the victim's": Plant(
        "rm -f $RUN/journal.jsonl; ln -s $CANARY $RUN/journal.jsonl", look="note", at="$RUN"
    ),
    "a state root that the attacker was faster to make": Plant(
        f"printf %s '{EXCLUSION}' > $STATE/clusters/lab/nodes/node01.json", into="first", look="excluded"
    ),
    "a state root over a link of the attacker's": Plant(
        f"printf %s '{EXCLUSION}' > $STATE/clusters/lab/nodes/node01.json; ln -s $STATE $STATE.link",
        into="first",
        look="excluded",
        at="$STATE.link",
        believed=[],
    ),
    "a pipe for a verdict": Plant("mkfifo $RUN/outcome.json", into="own", believed=rows(UNTRUSTED)),
    "a pipe for a claim, and root looks": Plant("mkfifo $RUN/claim", into="own", by=ROOT, believed=rows(UNTRUSTED)),
    "a verdict that is a link to what only the victim may read": Plant(
        "ln -s $SECRET $RUN/outcome.json", into="own", believed=rows(UNTRUSTED)
    ),
    "a verdict that is a device without an end": Plant(
        "ln -s /dev/zero $RUN/outcome.json", into="own", by=ROOT, believed=rows(UNTRUSTED)
    ),
    "a launch.json of a gigabyte": Plant("truncate -s 1G $RUN/launch.json", into="own", look="uses", at="$RUN"),
    "a verdict of a gigabyte": Plant("truncate -s 1G $RUN/outcome.json", into="own", believed=rows(UNTRUSTED)),
    "a run directory that is a link to the victim's": Plant(
        "rm -r $RUN; ln -s $(dirname $SECRET) $RUN", into="own", believed=rows(UNTRUSTED)
    ),
    "a claim of job ids for a shell": Plant(
        "echo '1 lab 1;touch' > $RUN/claim", into="own", believed=rows({"job_id": None, "events": 0})
    ),
    "times and ids without a range": Plant(
        'printf %s \'{"event": "submitted", "time": 1e400, "job_id": "1 2; rm"}\' > $RUN/journal.jsonl;'
        ' printf %s \'{"attempt": "x", "time": 1e300, "success": true}\' > $RUN/outcome.json',
        into="own",
        believed=rows({"job_id": None, "events": 0, "success": False}),
    ),
    "a verdict of a hundred thousand brackets": Plant(
        "head -c 100000 /dev/zero | tr '\\0' '[' > $RUN/outcome.json", into="own", believed=rows({"success": False})
    ),
    "a journal of a million lines": Plant(
        f"yes '{EVENT}' | head -n 1000000 > $RUN/journal.jsonl", into="own", believed=rows(UNTRUSTED)
    ),
}


def reader(lab: AttackLab) -> str:
    """The library and state_reader.py where both users can read them."""
    place = lab.shared_folder(0o755)
    inside = lab.host_path(place) / "ansible_collections" / "rankzero" / "slurm" / "plugins"
    shutil.copytree(CHECKOUT / "plugins" / "module_utils", inside / "module_utils")
    shutil.copy(CHECKOUT / "tests" / "cluster" / "state_reader.py", lab.host_path(place))
    return place


def prepare(lab: AttackLab, number: int, plant: Plant, secret: str) -> dict[str, str]:
    """The folders of one row, and what the attacker does there. The shell's variables."""
    folder = lab.shared_folder(0o2775, "project") if plant.into == "group" else lab.shared_folder()
    state = f"{folder}/state"
    run = f"{state}/runs/{NAME}/{KEY}/1"
    owner = {"group": VICTIM, "own": ATTACKER, "first": ATTACKER}[plant.into]
    make = f"mkdir -p {run}/logs {state}/clusters/lab/nodes && : > {run}/journal.jsonl"
    lab.run_as(owner, ["sh", "-c", make], umask=0o002 if plant.into == "group" else 0o022)
    mark = f"{lab.home_of(VICTIM)}/canary-{number}"
    variables = {"STATE": state, "RUN": run, "SECRET": secret, "CANARY": mark}
    lab.run_as(VICTIM, ["sh", "-c", f": > {mark}"])
    values = [f"{name}={value}" for name, value in variables.items()]
    lab.as_attacker(["env", *values, "sh", "-c", plant.script], umask=0o022)
    return variables


def as_expected(plant: Plant, answer: Mapping[str, Any]) -> bool:
    if plant.believed is None:
        return answer.get("refused") in ("Untrusted", "OSError")
    seen = answer.get("believed")
    if plant.believed == []:
        return answer.get("refused") == "Untrusted" or seen == []
    return (
        isinstance(seen, list)
        and len(seen) == len(plant.believed)
        and all(one[key] == value for one, wanted in zip(seen, plant.believed) for key, value in wanted.items())
    )


def test_nothing_that_the_attacker_has_planted_is_believed_followed_or_waited_for(attack_lab: AttackLab) -> None:
    place = reader(attack_lab)
    secret = attack_lab.write_as(VICTIM, f"{attack_lab.home_of(VICTIM)}/secret/file", PROVEN, mode=0o600)
    looks: dict[str, list[list[str]]] = {VICTIM.name: [], ROOT.name: []}
    marks = []
    for number, (name, plant) in enumerate(PLANTS.items()):
        variables = prepare(attack_lab, number, plant, secret)
        at = plant.at
        for variable, value in variables.items():
            at = at.replace(f"${variable}", value)
        looks[plant.by.name].append([name, plant.look, at])
        marks.append(variables["CANARY"])
    command = ["env", f"PYTHONPATH={place}", "/usr/bin/python3", f"{place}/state_reader.py"]
    answers: dict[str, Any] = {}
    for user in (VICTIM, ROOT):
        said = attack_lab.run_as(user, command, input=json.dumps(looks[user.name]), timeout=300).stdout
        answers.update(json.loads(said))
    wrong = {name: answers[name] for name, plant in PLANTS.items() if not as_expected(plant, answers[name])}
    assert not wrong, json.dumps(wrong, indent=1)[:6000]
    assert attack_lab.as_victim(["sh", "-c", 'cat "$@"', "sh", *marks]).stdout == "", "nothing was written over a link"
    named = answers["a verdict in a folder of the group"]
    assert "chmod -R go-w" in json.dumps(named), named


def test_a_launch_is_not_taken_from_a_verdict_that_another_user_has_planted(attack_lab: AttackLab) -> None:
    job = attack_lab.job("true")
    first = attack_lab.launch_as(VICTIM, job)
    assert attack_lab.outcome_of(first)["success"]
    shared = attack_lab.shared_folder()
    planted = first["run_dir"].replace(attack_lab.state_root(VICTIM), f"{shared}/state")
    attack_lab.write_as(ATTACKER, f"{planted}/outcome.json", PROVEN)
    cluster = {"state_root": f"{shared}/state", "store_root": attack_lab.store_root(VICTIM)}
    played = attack_lab.play_as(VICTIM, job, launch_cluster=cluster)
    assert played.rc != 0 and f"{shared}/state belongs to user attacker" in played.output, played.output
    closed = f"chmod -R g+w {attack_lab.state_root(VICTIM)} && chgrp -R project {attack_lab.state_root(VICTIM)}"
    attack_lab.as_victim(["sh", "-c", closed])
    refused = attack_lab.play_as(VICTIM, job)
    command = f"chmod -R go-w {attack_lab.state_root(VICTIM)}"
    assert refused.rc != 0 and command in refused.output, refused.output
    attack_lab.as_victim(["sh", "-c", command])
    again = attack_lab.launch_as(VICTIM, job)
    assert (again["submission"], again["job_id"]) == ("unchanged", first["job_id"]), "the command mends it"


def test_a_launch_in_the_folder_of_a_project_is_proven_and_nobody_else_may_write_it(attack_lab: AttackLab) -> None:
    """The set-group-ID bit and umask 002: what the job itself writes there is the project's, and closed to it."""
    folder = attack_lab.shared_folder(0o2775, "project")
    cluster = {"state_root": f"{folder}/state", "store_root": attack_lab.store_root(VICTIM)}
    job = attack_lab.job("echo '{}' > result.json", artifact={"path": "result.json"})
    launch = attack_lab.launch_as(VICTIM, job, umask=0o002, launch_cluster=cluster)
    assert attack_lab.outcome_of(launch)["success"]
    again = attack_lab.launch_as(VICTIM, job, umask=0o002, launch_cluster=cluster)
    assert (again["submission"], again["job_id"]) == ("unchanged", launch["job_id"])
    # A group of the victim's own may write what it likes; nobody else is in it.
    others = ["-perm", "/002", "-o", "-perm", "/020", "-group", "project"]
    assert attack_lab.as_victim(["find", f"{folder}/state", "-not", "-type", "l", "(", *others, ")"]).stdout == ""


@pytest.mark.parametrize("user", [VICTIM, ROOT], ids=lambda user: user.name)
def test_looking_at_the_attackers_run_executes_and_writes_nothing(attack_lab: AttackLab, user: User) -> None:
    """A runtime that the job script names, links for logs and for what a diagnosis writes."""
    canary = attack_lab.canary()
    artifact = {"path": "out/r.json", "require": {"loss": {"lt": 2}}, "then": "let_run"}
    job = attack_lab.job("until [ -e go ]; do sleep 0.1; done", artifact=artifact)
    launch = attack_lab.launch_as(ATTACKER, job)
    run, site = launch["run_dir"], attack_lab.site
    site.wait_for(site.run_dir(launch) / "logs" / "0" / "rank-0000.log")
    secret = attack_lab.write_as(VICTIM, f"{attack_lab.home_of(VICTIM)}/secret", "the victim's words\n", mode=0o600)
    planted = attack_lab.write_as(ATTACKER, f"{attack_lab.home_of(ATTACKER)}/rt/artifact/outcome.py", canary.python)
    precious = attack_lab.canary()
    script = f"""
        runtime={planted.rpartition("/")[0]}
        sed "s|^export RANKZERO_RUNTIME=.*|export RANKZERO_RUNTIME=$runtime|" {run}/job.sbatch > {run}/j
        mv -f {run}/j {run}/job.sbatch
        mkdir -p {run}/work/out && echo '{{"loss": 3}}' > {run}/work/out/r.json
        ln -s {precious.folder}/by-diagnosis {run}/diagnosis.json
        ln -s {secret} {run}/logs/0/rank-0001.log
        ln -sf {secret} {run}/logs/0/.live
    """
    attack_lab.as_attacker(["sh", "-c", script])
    waited = attack_lab.task_as(user, "job_wait", run_dir=run, until="artifact", wait_timeout=4)
    assert not waited["failed"] and waited["proven"] is False, waited
    logs = attack_lab.task_as(user, "job_logs", run_dir=run, dest=str(site.folder / "logs"))
    assert not logs["failed"], logs
    fetched = [path.read_text() for path in (site.folder / "logs").rglob("*.log")]
    assert fetched and not any("the victim's words" in text for text in fetched)
    attack_lab.as_attacker(["sh", "-c", f"echo '{{\"loss\": 1}}' > {run}/work/out/r.json"])
    proven = attack_lab.task_as(user, "job_wait", run_dir=run, until="artifact", wait_timeout=60)
    assert proven["proven"] is True, proven
    attack_lab.as_attacker(["touch", f"{run}/work/go"])
    site.ended(launch["job_id"])
    diagnosed = attack_lab.task_as(user, "job_diagnosis", run_dir=run)
    assert not diagnosed["failed"], diagnosed
    assert "the victim's words" not in json.dumps([waited, logs, proven, diagnosed])
    assert canary.owners() == [] and precious.owners() == []


def test_the_rig_has_two_users_who_launch_and_mark_what_they_execute(attack_lab: AttackLab) -> None:
    canary, node = attack_lab.canary(), attack_lab.lab.nodes[0]
    for user, run in ((VICTIM, attack_lab.as_victim), (ATTACKER, attack_lab.as_attacker)):
        assert run(["id", "-un"]).stdout == run(["id", "-un"], node=node).stdout == f"{user.name}\n"
        assert "project" in run(["id", "-Gn"]).stdout.split()
    shared = attack_lab.shared_folder(0o2775, "project")
    path = attack_lab.write_as(ATTACKER, f"{shared}/plan", canary.command)
    assert canary.owners() == []
    attack_lab.as_victim(["sh", path], umask=0o077)
    attack_lab.as_root(["sh", path])
    assert canary.owners() == ["root", "victim"]
    launch = attack_lab.launch_as(VICTIM, attack_lab.job("id -un; id -Gn; umask"), umask=0o027)
    assert attack_lab.outcome_of(launch)["success"]
    assert attack_lab.host_path(launch["run_dir"]).stat().st_uid == VICTIM.uid
    log = attack_lab.as_victim(["cat", f"{launch['run_dir']}/logs/0/rank-0000.log"]).stdout.split()
    assert "victim" in log and "project" in log and "0027" in log, log
    (seen,) = attack_lab.task_as(ROOT, "job_info", run_dir=launch["run_dir"])["launches"]
    assert seen["job_id"] == launch["job_id"]
