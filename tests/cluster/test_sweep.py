# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps and pipelines as a user runs them: what fails runs again, what is there does not, what follows waits."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import batch_script
from rankzero.sbatch.convert import converted
from tests.cluster.launching import JOB_SECONDS, UNTIL_GO, Played, Site, log_of, rank_logs, read_json
from tests.unit.command.sbatch.recorded import needs_sandbox

PLAYBOOK = "rankzero.slurm.sweep"
SWEEP, INFO, PIPELINE = (f"rankzero.slurm.{name}" for name in ("job_sweep", "job_sweep_info", "job_pipeline"))
#: As argv from the second word on: 1 is what the test calls a bad place, 2 and 3 the element's values.
PROGRAM = """
if [ "$2$3" = "b's 2" ] && [ ! -e "$1" ]; then
    printf 'Traceback (most recent call last):\\nValueError: too wide\\n' >&2
    exit 3
fi
for step in 1 2 3 4; do echo "step $step/4 loss $3.$((9 - step))"; done
printf '{"loss": %s.5, "eval": {"acc": 0.%s}}' "$3" "$3" > result.json
"""


def sweep(played: Played) -> dict[str, Any]:
    """What the last call of job_sweep returned."""
    return played.results(SWEEP)[-1]


def states(played: Played) -> list[str]:
    return [row["submission"] for row in sweep(played)["elements"]]


def three_elements(site: Site, **resources: Any) -> dict[str, Any]:
    """A sweep of which one element fails, and its results: for labs that are made otherwise. The job."""
    job = site.job(
        ["sh", "-c", """[ "$1" != 3 ] || exit 3; printf '{"loss": %s}' "$1" > result.json""", "p", "{lr}"],
        artifact={},
        resources={"time": "00:05:00", **resources},
        sweep={"parameters": {"lr": ["2", "1", "3"]}, "metric": "loss"},
    )
    played = site.play(job, playbook=PLAYBOOK, wait=True)
    found = played.results(INFO)[-1]
    assert played.rc != 0 and found["counts"] == {"succeeded": 2, "failed": 1}, played.output
    assert found["best"]["number"] == 1 and found["first_failed"]["number"] == 2
    assert found["first_failed"]["message"].startswith("the program ended with exit code 3")
    assert len(site.jobs()) == 3
    return job


def test_a_sweep_runs_what_is_missing_or_failed_and_nothing_else(site: Site) -> None:
    mend = site.host_path(f"{site.lab.shared_inside}/mend-{site.token}")
    job = site.job(
        ["sh", "-c", PROGRAM, "prog", f"{site.lab.shared_inside}/{mend.name}", "{name}", "{width}"],
        env={"NAME": "<{name}>"},
        artifact={},
        sweep={"parameters": {"name": ["a", "b's "], "width": ["1", "2", "3"]}, "metric": "loss", "parallel": 5},
    )
    played = site.play(job, playbook=PLAYBOOK, wait=True)
    assert played.rc != 0 and "succeeded': 5" in played.output and "ValueError: too wide" in played.output
    first = sweep(played)
    assert (first["submission"], len(first["arrays"]), first["arrays"][0]["tasks"]) == ("submitted", 1, "0-5%5")
    array = first["arrays"][0]["job_id"]
    found = played.results(INFO)[-1]
    assert [row["standing"] for row in found["elements"]] == ["succeeded"] * 4 + ["failed", "succeeded"]
    assert found["first_failed"]["number"] == 4 and found["first_failed"]["parameters"] == {
        "name": "b's ",
        "width": "2",
    }
    assert found["best"]["number"] == 0 and found["best"]["metric"] == 1.5
    rows = list(csv.DictReader(Path(found["files"]["csv"]).read_text(encoding="utf-8").splitlines()))
    assert [(row["name"], row["width"], row["standing"]) for row in rows][3:5] == [
        ("b's ", "1", "succeeded"),
        ("b's ", "2", "failed"),
    ]
    assert read_json(Path(found["files"]["json"]))["best"]["key"] == first["elements"][0]["key"]
    # The failed element's own logs are there, with what its batch script said.
    failed = found["first_failed"]
    assert failed["job_id"] == f"{array}_4"
    fetched = site.folder / "runs" / job["name"] / failed["key"][:16] / "1" / "logs"
    assert "ValueError: too wide" in (fetched / "0" / "rank-0000.log").read_text()
    assert f"job {array}_4 attempt 0" in (fetched / f"job.{array}_4.log").read_text()
    claims = {path.read_text() for path in site.host_path(site.state_root).glob("runs/*/*/1/claim")}
    assert len(claims) == 6 and any(claim.endswith(f" {array}_0\n") for claim in claims)

    # A wider grid, the fault mended, and a site whose arrays hold three tasks.
    job["sweep"]["parameters"]["width"] = ["4", "1", "2", "3"]
    checked = site.play(job, "--check", "--diff", playbook=PLAYBOOK)
    assert states(checked) == ["planned", *["unchanged"] * 3, "planned", "unchanged", "planned", "unchanged"]
    assert "+0  name=a, width=4: planned (new)" in checked.output
    assert "+6  name=b's , width=2: planned (failed: the program ended with exit code 3" in checked.output
    mend.touch()
    # What the cluster allows is remembered for ten minutes.
    shutil.rmtree(site.host_path(f"{site.state_root}/cache"))
    small = site.fake("scontrol", """/usr/bin/scontrol "$@" | sed 's/^MaxArraySize .*/MaxArraySize = 2/'""")
    played = site.play(job, playbook=PLAYBOOK, wait=True, ansible_shell_executable=small)
    assert played.rc == 0, played.output
    assert [one["tasks"] for one in sweep(played)["arrays"]] == ["0-1%5", "0-0%5"]
    assert [row["generation"] for row in sweep(played)["elements"]] == [1, 1, 1, 1, 1, 1, 2, 1]
    assert len(site.jobs()) == 9, "six tasks, and the three that were missing or failed"
    (element,) = [row for row in played.results(INFO)[-1]["elements"] if row["number"] == 4]
    (log,) = rank_logs(site.host_path(element["run_dir"])).values()
    assert "RANK=0" in log

    again = site.play(job, playbook=PLAYBOOK, wait=True)
    assert again.rc == 0 and sweep(again)["counts"] == {"unchanged": 8} and sweep(again)["slurm_commands"] == 0
    assert len(site.jobs()) == 9
    # The same values by hand are the same launch.
    by_hand = {**job, "command": [*job["command"][:-2], "a", "1"], "env": {"NAME": "<a>"}}
    del by_hand["sweep"]
    assert site.launch(by_hand)["submission"] == "unchanged"
    pages_of_a_sweep(site, job["name"], element["run_dir"])
    wrong = site.play({**job, "sweep": {**job["sweep"], "metric": "lss"}}, playbook=PLAYBOOK, wait=True)
    assert wrong.rc != 0 and "has the number 'lss'; did you mean loss?" in wrong.output
    assert "rankzero.slurm.sweep" in site.play(job).refused()


def test_the_array_of_a_script_as_the_sweep_that_its_refusal_says(site: Site) -> None:
    text = "#!/bin/bash\n#SBATCH --array=3-5:2\necho task $SLURM_ARRAY_TASK_ID\n"
    (site.folder / "code" / "shards.sbatch").write_text(text, encoding="utf-8")
    ((_number, sentence),) = batch_script.read_header(text).problems
    same, _end = json.JSONDecoder().raw_decode(sentence[sentence.index("{") :])
    line = same.pop("shell").replace("SCRIPT", "shards.sbatch")
    played = site.play(site.job(line, **same), playbook=PLAYBOOK, wait=True)
    assert played.rc == 0, played.output
    rows = sweep(played)["elements"]
    assert len(rows) == 2
    for task, row in zip((3, 5), rows):
        (log,) = rank_logs(site.host_path(row["run_dir"])).values()
        assert f"task {task}\n" in log


@needs_sandbox
def test_the_elements_made_of_an_array_run_what_its_tasks_run(site: Site) -> None:
    """The job that `init --from` makes of a script with --array, and the script by plain sbatch."""
    folder = site.folder / "project"
    folder.mkdir()
    (folder / "show.py").write_text("import os, sys\nprint('ran', sys.argv[1:], os.environ['OUT'])\n")
    body = (
        "A=(x 'two words' z)\nexport OUT=run-$SLURM_ARRAY_TASK_ID\nsrun python3 show.py \"${A[$SLURM_ARRAY_TASK_ID]}\""
    )
    name = f"made-{site.token}"
    script = folder / f"{name}.sbatch"
    script.write_text(f"#!/bin/bash\n#SBATCH --array=0-2 --time=5 --output=%a.out\n{body}\n", encoding="utf-8")
    by_hand = f"{site.state_root}.by-hand"
    shutil.copytree(folder, site.host_path(by_hand))
    site.user.give(site.host_path(by_hand))
    site.head(["/bin/sh", "-c", f"cd {by_hand} && sbatch --wait --mem=100M {script.name}"], timeout=JOB_SECONDS)
    plain = [(site.host_path(by_hand) / f"{task}.out").read_text(encoding="utf-8") for task in range(3)]

    made = converted(str(script), str(folder / "jobs"))
    spec = yaml.safe_load(made.text)
    assert spec["command"] == ["show.py", "{value}"], made.text
    spec["code"]["src"] = str(folder)
    spec["resources"] = {**spec["resources"], "memory": "100M"}
    played = site.play(spec, playbook=PLAYBOOK, wait=True)
    assert played.rc == 0, played.output
    for row, lines in zip(sweep(played)["elements"], plain):
        (log,) = rank_logs(site.host_path(row["run_dir"])).values()
        assert [line for line in log.splitlines() if line.startswith("ran ")] == lines.splitlines()


def pages_of_a_sweep(site: Site, name: str, run_dir: str) -> None:
    """The pages of a sweep, of one of its elements, of two of them side by side, and of all launches."""
    folder, key, _generation = run_dir.rsplit("/", 2)
    keys = [path.name for path in site.host_path(folder).iterdir() if not path.name.startswith(".")]
    second = f"{folder}/{next(other for other in sorted(keys) if other != key)}/1"
    chosen: dict[str, dict[str, Any]] = {
        "sweep": {"sweep": name},
        "launch": {"launches": run_dir},
        "compare": {"launches": [run_dir, second]},
        "index": {"limit": 100},
    }
    for kind, given in chosen.items():
        page = site.folder / f"{kind}.html"
        played = site.play(None, playbook="rankzero.slurm.report", dest=str(page), annotations="github", **given)
        assert played.rc == 0, played.output
        (found,) = played.results("rankzero.slurm.report_page")
        text = page.read_text(encoding="utf-8")
        assert (found["kind"], found["bytes"]) == (kind, len(text.encode())) and len(text) < 1_000_000
        assert page.with_suffix(".md").read_text(encoding="utf-8").startswith("## ")
        if kind in ("launch", "compare"):
            assert found["launches"][0]["metrics"]["loss"]["values"] == [4.8, 4.7, 4.6, 4.5]
            phases = found["launches"][0].get("timeline", [])
            assert bool(phases) == (kind == "launch") and all(phase["ended"] >= phase["began"] for phase in phases)
        elif kind == "sweep":
            assert found["sweep"]["best"]["metric"] == 1.5 and len(found["launches"]) == 8
        else:
            assert len(found["launches"]) >= 9 and "ValueError" not in text
            assert f"::error title={name}/" in played.output


def test_one_element_is_requeued_and_another_cancelled_alone(site: Site) -> None:
    """Each is addressed alone: the last task of an array has the array's own number as its job id."""
    job = site.job(
        ["sh", "-c", f"echo started {{tag}}; {UNTIL_GO}; echo '{{{{}}}}' > result.json", "prog", "{tag}"],
        artifact={"format": "any"},
        resources={"time": "00:10:00"},
        checkpoint={"dir": f"{site.lab.shared_inside}/checkpoints-{site.token}/{{tag}}"},
        sweep={"method": "list", "points": [{"tag": "x"}, {"tag": "y"}, {"tag": "z"}]},
    )
    rows = sweep(site.play(job, playbook=PLAYBOOK))["elements"]
    runs = [site.host_path(row["run_dir"]) for row in rows]
    for run in runs:
        site.lab.wait_until(lambda run=run: any("started" in text for text in rank_logs(run).values()), 60, "it runs")
    array = rows[0]["job_id"].split("_")[0]
    site.lab.head(["scontrol", "requeue", f"{array}_2"])
    cancelled = site.play(job, playbook=PLAYBOOK, state="absent", elements=["1"])
    assert states(cancelled) == ["absent", "cancelled", "absent"]
    site.lab.wait_until(lambda: rank_logs(runs[2], 1), 60, "the requeued element runs again")
    for run in (runs[0], runs[2]):
        (run / "work" / "go").touch()
    played = site.play(job, playbook=PLAYBOOK, wait=True, launch_relaunch="never")
    found = played.results(INFO)[-1]
    assert [row["standing"] for row in found["elements"]] == ["succeeded", "failed", "succeeded"]
    assert "cancelled" in found["elements"][1]["message"]
    assert f"job {array}_2 attempt 1" in log_of(runs[2], f"{array}_2")
    assert read_json(runs[2] / "outcome.json")["attempt"] == 1
    assert len(site.jobs()) == 3


def cancelled(site: Site) -> set[str]:
    """The jobs of the site that Slurm says are cancelled; the others may start or end at any time."""
    return {job for job, state in site.jobs().items() if state.startswith("CANCELLED")}


def test_a_pipeline_goes_on_where_it_failed(site: Site) -> None:
    mend = site.host_path(f"{site.lab.shared_inside}/mend-{site.token}")
    inside = f"{site.lab.shared_inside}/{mend.name}"
    sweep_name = f"{site.slug}-train-{site.token}"
    variable = "RANKZERO_AFTER_" + sweep_name.upper().replace("-", "_")
    site.write(
        site.job("echo 1 > tokens", name="tokenise", artifact={"path": "tokens", "format": "any"}), "jobs/tokenise.yml"
    )
    train = site.job(
        [
            "sh",
            "-c",
            'env | grep RANKZERO_AFTER; [ "$2" = 1 ] || [ -e "$1" ] || exit 4; echo "{}" > result.json',
            "p",
            inside,
            "{lr}",
        ],
        name="train",
        artifact={},
        sweep={"parameters": {"lr": ["1", "2"]}},
    )
    site.write(train, "jobs/train.yml")
    evaluate = site.job(f'cp "${variable}/sweep.json" result.json', name="evaluate", artifact={}, after=["train.yml"])
    site.write(evaluate, "jobs/evaluate.yml")
    pipeline = site.write({"jobs": ["jobs/tokenise.yml", "jobs/train.yml", "jobs/evaluate.yml"]}, "pipeline.yml")

    def stages(played: Played) -> list[tuple[str, str]]:
        assert not played.results(PIPELINE)[-1]["failed"], played.output
        return [(stage["kind"], stage["submission"]) for stage in played.results(PIPELINE)[-1]["stages"]]

    checked = site.play(pipeline, "--check", playbook=PIPELINE.replace("job_", ""))
    assert stages(checked) == [("job", "planned"), ("sweep", "planned"), ("job", "planned")], checked.output
    assert site.jobs() == {} or not site.runs()
    played = site.play(pipeline, playbook="rankzero.slurm.pipeline")
    assert stages(played) == [("job", "submitted"), ("sweep", "submitted"), ("job", "submitted")], played.output
    tokenised, trained, evaluated = played.results(PIPELINE)[-1]["stages"]
    assert site.ended(evaluated["job_id"]) == "CANCELLED", "Slurm ends what can never start"
    assert not site.run_dir(evaluated).joinpath("claim").exists()
    assert "rankzero.slurm.pipeline" in site.play("jobs/evaluate.yml").refused()

    mend.touch()
    # By the last job's own `after` too: of `train` it knows the file alone, and of `tokenise` nothing.
    played = site.play(pipeline, playbook="rankzero.slurm.pipeline", wait=True)
    assert played.rc == 0, played.output
    assert stages(played) == [("job", "unchanged"), ("sweep", "submitted"), ("job", "submitted")]
    again = played.results(PIPELINE)[-1]["stages"]
    assert [row["submission"] for row in again[1]["elements"]] == ["unchanged", "submitted"]
    assert (again[2]["key"], again[2]["generation"]) == (evaluated["key"], 2)
    (log,) = rank_logs(site.host_path(again[1]["elements"][1]["run_dir"])).values()
    assert f"={tokenised['run_dir']}\n" in log, log
    copied = read_json(site.run_dir(again[2]) / "work" / "result.json")
    assert [one["parameters"] for one in copied["elements"]] == [{"lr": "1"}, {"lr": "2"}]
    played = site.play(pipeline, playbook="rankzero.slurm.pipeline", wait=True)
    assert stages(played) == [("job", "unchanged"), ("sweep", "unchanged"), ("job", "unchanged")]
    # Another tokeniser is another training.
    site.write(
        site.job("echo 2 > tokens", name="tokenise", artifact={"path": "tokens", "format": "any"}), "jobs/tokenise.yml"
    )
    planned = site.play(pipeline, "--check", playbook="rankzero.slurm.pipeline")
    assert stages(planned) == [("job", "planned"), ("sweep", "planned"), ("job", "planned")]
    assert trained["key"] != planned.results(PIPELINE)[-1]["stages"][1]["key"]
    site.write(site.job(f"{UNTIL_GO}", name="tokenise"), "jobs/tokenise.yml")
    played = site.play(pipeline, playbook="rankzero.slurm.pipeline")
    running = played.results(PIPELINE)[-1]["stages"]
    before = cancelled(site)
    checked = site.play(pipeline, "--check", "--diff", playbook="rankzero.slurm.pipeline", state="absent")
    assert [stage["changed"] for stage in checked.results(PIPELINE)[-1]["stages"]] == [True, True, True]
    assert f"job {running[0]['job_id']}\n" in checked.output and "cancelled (asked for)" in checked.output
    assert cancelled(site) == before, "check mode cancels nothing"
    played = site.play(pipeline, playbook="rankzero.slurm.pipeline", state="absent", wait=True)
    assert stages(played) == [("job", "absent"), ("sweep", "cancelled"), ("job", "absent")]
    assert site.ended(running[0]["job_id"]) == site.ended(running[2]["job_id"]) == "CANCELLED"
    assert not {"PENDING", "RUNNING"} & set(site.jobs().values()), site.jobs()
    played = site.play(pipeline, playbook="rankzero.slurm.pipeline", state="absent")
    assert stages(played) == [("job", "absent"), ("sweep", "absent"), ("job", "absent")]
    assert not played.results(PIPELINE)[-1]["changed"]


def test_what_the_modules_take(site: Site) -> None:
    """In a playbook of the user's own, with a secret."""
    job = site.job(
        ["sh", "-c", 'printf \'{"loss": %s, "told": "%s"}\' "$1" "$TOKEN" > result.json', "p", "{lr}"],
        artifact={},
        secrets={"TOKEN": {"from_env": "SWEEP_TOKEN"}},
        sweep={"method": "random", "samples": 3, "parameters": {"lr": {"min": 1, "max": 9}}, "metric": "loss"},
    )
    before = site.write(
        {**site.job("touch done", name="first", artifact={"path": "done", "format": "any"})}, "first.yml"
    )
    cluster = site.cluster
    tasks: list[dict[str, Any]] = [
        {SWEEP: {"job": job, "cluster": cluster, "overrides": {"time": "00:03:00"}, "relaunch": "always"}},
        {
            INFO: {
                "name": job["name"],
                "state_root": site.state_root,
                "wait": True,
                "wait_timeout": 100,
                "poll_max": 2,
                "goal": "max",
                "metric": "loss",
                "dest": str(site.folder / "results"),
            }
        },
        {INFO: {"sweep_dir": "/nowhere"}, "ignore_errors": True},
        {PIPELINE: {"job": [before], "cluster": cluster, "state": "gone"}, "ignore_errors": True},
        {INFO: {"name": job["name"], "key": "9" * 6, "state_root": site.state_root}, "ignore_errors": True},
        {PIPELINE: {"job": [before], "cluster": cluster, "overrides": {"time": "00:04:00"}, "relaunch": "never"}},
        *(
            {SWEEP: {"job": job, "cluster": cluster, internal: {}}, "ignore_errors": True}
            for internal in ("x_request", "x_runtime", "x_secrets_file")
        ),
    ]
    # The role's part: what is missing is built before. One element alone is asked for, and enough.
    played = site.play(job, playbook=PLAYBOOK, wait=True, env={"SWEEP_TOKEN": "s3cr3t"}, elements=["0"])
    assert played.rc == 0 and states(played) == ["submitted", "absent", "absent"], played.output
    play = site.write([{"hosts": "slurm_login", "gather_facts": False, "tasks": tasks}], "own.yml")  # type: ignore[arg-type]
    played = site.play(None, playbook=play, env={"SWEEP_TOKEN": "s3cr3t"})
    assert played.rc == 0, played.output
    first, *refused = played.results(SWEEP)
    assert {row["submission"] for row in first["elements"]} == {"submitted"}
    found, nowhere, nobody = played.results(INFO)
    assert (
        found["completed"]
        and found["success"]
        and found["best"]["metric"] == max(row["metric"] for row in found["elements"])
    )
    assert all(row["scalars"]["told"] == "s3cr3t" for row in found["elements"])
    assert not any(
        "s3cr3t" in path.read_text(errors="replace")
        for path in site.host_path(site.state_root).glob("runs/*/.sweep-*/*/*")
        if path.is_file()
    )
    assert not list(site.host_path(site.state_root).glob("runs/*/*/*/secrets.env"))
    assert Path(found["files"]["csv"]).exists() and "results" in found["files"]["csv"]
    assert played.results(PIPELINE)[0]["msg"] == "state: must be one of present, absent; not 'gone'"
    assert "contains no sweep.json" in nowhere["msg"] and "no sweep" in nobody["msg"]
    assert [stage["submission"] for stage in played.results(PIPELINE)[-1]["stages"]] == ["submitted"]
    limits = site.lab.head(["squeue", "--noheader", "--states=all", "--Format=Name:200,TimeLimit:20"]).stdout
    assert {line.split()[1] for line in limits.splitlines() if site.token in line} == {"10:00", "3:00", "4:00"}
    assert all("unknown option" in one["msg"] for one in refused)
