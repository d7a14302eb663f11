# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of an ordinary launch: submitted, adopted, left alone, launched anew; and what each of them costs."""

from __future__ import annotations

import json

from tests.cluster.launching import RESULT, UNTIL_GO, Site, log_of, read_json

#: The check of the command line and of the role's arguments, and module job: what a launch costs that waits for
#: nothing and finds everything there.
WARM_TASKS = ["rankzero.slurm.extra_variables", "rankzero.slurm.job"]


def test_a_launch_is_submitted_once_then_adopted_then_left_alone(site: Site) -> None:
    job = site.job(f"{UNTIL_GO}; {RESULT}", artifact={"require": {"loss": {"lt": 2}}, "then": "end"})
    site.launch(site.job("true", name="store"))  # brings code and runtime, so that the next one is warm

    first = site.play(job)
    launch = first.launch()
    assert first.rc == 0, first.output
    assert (launch["submission"], launch["changed"], launch["generation"]) == ("submitted", True, 1)
    assert launch["job_id"] and f"job {launch['job_id']}, generation 1: submitted" in first.output
    assert launch["slurm_commands"] <= 2
    # Nobody waits here: besides the launch there is one line that says how to come back to it.
    assert first.tasks() == [*WARM_TASKS, "ansible.builtin.include_tasks", "ansible.builtin.debug"]
    assert f"rankzero.slurm.attach -e run_dir={launch['run_dir']}" in first.output

    again = site.play(job)
    adopted = again.launch()
    assert (adopted["submission"], adopted["changed"]) == ("adopted", False)
    assert (adopted["job_id"], adopted["run_dir"]) == (launch["job_id"], launch["run_dir"])
    assert again.tasks() == first.tasks()

    site.go(launch)
    assert site.outcome(launch)["success"]
    site.ended(launch["job_id"])
    done = site.play(job)
    kept = done.launch()
    assert (kept["submission"], kept["changed"], kept["standing"]) == ("unchanged", False, "succeeded")
    assert (kept["job_id"], kept["generation"], kept["slurm_commands"]) == (launch["job_id"], 1, 0)
    assert done.tasks() == WARM_TASKS
    assert [*site.jobs(job["name"])] == [launch["job_id"]]

    # Another shape is another launch; the first one stands as it is.
    wider = site.launch(job, "-e", "nodes=2")
    assert wider["submission"] == "submitted"
    assert wider["key"] != launch["key"] and wider["generation"] == 1
    site.go(wider)

    # On demand the same launch runs once more, as a generation of its own.
    rerun = site.launch(job, "-e", "rerun=true")
    assert (rerun["submission"], rerun["generation"], rerun["key"]) == ("submitted", 2, launch["key"])
    site.go(rerun)
    for one, job_id in ((wider, wider["job_id"]), (rerun, rerun["job_id"])):
        assert site.outcome(one)["job_id"] == job_id
    assert set(site.jobs(job["name"])) == {launch["job_id"], wider["job_id"], rerun["job_id"]}


def test_a_failed_launch_is_launched_anew_unless_told_otherwise(site: Site) -> None:
    job = site.job("echo no luck; exit 3")
    first = site.launch(job)
    assert site.outcome(first)["success"] is False
    site.ended(first["job_id"])

    never = site.launch(job, launch_relaunch="never")
    assert (never["submission"], never["changed"], never["standing"]) == ("unchanged", False, "failed")
    assert never["job_id"] == first["job_id"]
    assert never["slurm_commands"] <= 1, "a failed job may have been requeued: Slurm is asked once"
    assert "exit code 3" in never["message"]

    second = site.launch(job)
    assert (second["submission"], second["generation"], second["key"]) == ("submitted", 2, first["key"])
    site.outcome(second)
    assert set(site.jobs()) == {first["job_id"], second["job_id"]}


def test_values_of_the_command_line_are_typed_and_win(site: Site) -> None:
    job = site.job("printenv WORLD_SIZE OMP_NUM_THREADS", resources={"nodes": 1, "time": "00:10:00", "memory": "1G"})
    given = ["nodes=2", "time=00:07:00", "partition=short", "ranks_per_node=2", "cpus_per_rank=3", "debug=yes"]
    played = site.play(job, *(word for one in given for word in ("-e", one)))
    launch = played.launch()
    assert launch["submission"] == "submitted", played.output
    asked = site.lab.head(["scontrol", "show", "job", launch["job_id"]]).stdout
    for text in ("NumNodes=2", "NumTasks=4", "CPUs/Task=3", "TimeLimit=00:07:00", "Partition=short"):
        assert text in asked, (text, asked)
    assert site.outcome(launch)["success"]
    run = site.run_dir(launch)
    for rank in range(4):
        said = (run / "logs" / "0" / f"rank-{rank:04d}.log").read_text()
        assert said.splitlines()[-2:] == ["4", "3"], said
    assert "+ " in log_of(run, launch["job_id"]), "debug=yes traces the batch script"
    manifest = read_json(run / "launch.json")
    assert manifest["origins"]["resources.nodes"] == "command line"
    assert manifest["origins"]["resources.memory"].startswith("job-0.yml")
    assert manifest["world_size"] == 4


def test_a_launch_without_its_parts_names_them_and_submits_nothing(site: Site) -> None:
    """`--check --diff` on an empty store: the plan, the values and what would be built; nothing is written."""
    site.cluster["store_root"] = f"{site.state_root}.store"
    played = site.play(site.job("echo hello"), "--check", "--diff")
    launch = played.launch()
    assert played.rc == 0, played.output
    assert (launch["submission"], launch["changed"], launch["generation"]) == ("planned", True, 1)
    assert sorted(ref["kind"] for ref in launch["missing"]) == ["code", "runtime"]
    assert "+command: " in played.output and "echo hello" in played.output and "#SBATCH" not in played.output
    assert not site.host_path(site.state_root).exists()
    assert not site.host_path(site.cluster["store_root"]).exists()
    assert site.jobs() == {}

    built = site.launch(site.job("echo hello"))
    assert built["submission"] == "submitted"
    assert site.outcome(built)["success"]

    # Why a changed program or command is another launch: one line, and a diff of what has changed.
    with open(site.folder / "code" / "README", "a", encoding="utf-8") as stream:
        stream.write("One more line.\n")
    played = site.play(site.job("echo bye", resources={"time": "00:05:00"}), "--check", "--diff")
    changed = played.launch()["changed_since"]
    assert (changed["key"], changed["run_dir"]) == (built["key"][:16], built["run_dir"])
    assert changed["changes"] == ["command -c echo hello -> echo bye", "README +1"]
    assert f"another launch than {built['key'][:8]}: command -c echo hello -> echo bye, README +1" in played.output
    assert '-resources.time: "00:10:00"' in played.output and '+resources.time: "00:05:00"' in played.output
    assert "#SBATCH" not in played.output


NASTY = [
    "two words",
    'it\'s "quoted"',
    "$(touch pwned) `touch pwned` ${HOME} $0",
    "a\nnew\tline\\n",
    "-n",
    "# no comment",
    "é 漢 😀",
    "*?[a-z] ~ ! ; & | < > ( ) { }",
    "",
    " ",
]


def test_text_of_any_kind_reaches_every_rank_unchanged(site: Site) -> None:
    """Arguments, environment and places, through real sbatch and srun; nothing of it is executed on the way."""
    site.cluster["state_root"] = f'{site.state_root} it\'s a "place" # $(id) é'
    program = (
        "import json, os, sys; json.dump([sys.argv[1:], os.environ['NASTY'], os.getcwd()], open('result.json', 'w'))"
    )
    job = site.job(
        ["python3", "-c", program, *NASTY],
        env={"NASTY": "".join(NASTY)},
        artifact={"path": "result.json", "format": "any"},
    )
    launch = site.launch(job)
    run = site.run_dir(launch)
    outcome = site.outcome(launch)
    assert outcome["success"], outcome
    argv, value, where = read_json(run / "work" / "result.json")
    assert argv == NASTY
    assert value == "".join(NASTY)
    assert where == f"{launch['run_dir']}/work"
    assert site.ended(launch["job_id"]) == "COMPLETED"
    assert "success" in log_of(run, launch["job_id"])
    assert not list(site.folder.rglob("pwned")) and not list(run.rglob("pwned"))
    assert site.launch(job)["submission"] == "unchanged"


def test_the_module_cancels_what_is_active_and_nothing_else(site: Site) -> None:
    job = site.job(UNTIL_GO)
    playbook = site.folder / "cancel.yml"
    options = {"job": "{{ job }}", "cluster": "{{ launch_cluster }}", "state": "absent"}
    tasks = [{"rankzero.slurm.job": options}]
    playbook.write_text(json.dumps([{"hosts": "slurm_login", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    nothing = site.launch(job, playbook=str(playbook))
    assert (nothing["submission"], nothing["changed"], nothing["generation"]) == ("absent", False, None)

    launch = site.launch(job)
    site.wait_for(site.run_dir(launch) / "work")
    foreseen = site.launch(job, "--check", playbook=str(playbook))
    assert (foreseen["changed"], foreseen["job_id"]) == (True, launch["job_id"])
    assert site.jobs() == {launch["job_id"]: "RUNNING"}
    cancelled = site.launch(job, playbook=str(playbook))
    assert (cancelled["changed"], cancelled["job_id"]) == (True, launch["job_id"])
    assert site.ended(launch["job_id"]) == "CANCELLED"
    assert site.launch(job, playbook=str(playbook))["changed"] is False
    assert site.launch(job)["generation"] == 2
