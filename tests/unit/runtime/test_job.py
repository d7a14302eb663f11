# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rendered script does around its ranks: claim, run directory, step, signals, verdict."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.runtime.harness import Job, Site, wait_for

ARTIFACT = {"path": "result.json", "require": {"loss": {"lt": 4}}}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "cluster")


def shell(line: str) -> dict[str, object]:
    return {"shell": line}


def conda(place: Path) -> Path:
    """What makes a folder a conda environment for a job: its history, and scripts for whoever activates it."""
    for folder in ("bin", "conda-meta", "etc/conda/activate.d"):
        (place / folder).mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    (place / "conda-meta" / "history").touch()
    script = 'export FROM_CONDA="$CONDA_PREFIX $NOBODY_HAS_SET" OWN=conda\n'
    (place / "etc" / "conda" / "activate.d" / "a b.sh").write_text(script, encoding="utf-8")
    return place


# --- ranks


def test_srun_ranks_find_the_names_that_torch_expects(site: Site) -> None:
    job = site.job({"resources": {"nodes": 2}, "launcher": {"ranks_per_node": 2}, "seed": 7})
    assert job.finish(job_id=42) == 0, job.log(42)
    started = job.started()
    assert started.pop("time") > 1
    port = started.pop("master_port")
    assert 15000 <= port < 20000
    assert started == {
        "job_id": "42",
        "attempt": 0,
        "nodes": ["localhost", "localhost"],
        "master_addr": "127.0.0.1",
        "world_size": 4,
    }
    for rank in range(4):
        expected = {
            "RANK": rank,
            "LOCAL_RANK": rank % 2,
            "NODE_RANK": rank // 2,
            "WORLD_SIZE": 4,
            "LOCAL_WORLD_SIZE": 2,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "RANKZERO_SEED": 7,
            "OMP_NUM_THREADS": 1,
        }
        environment = job.seen(rank)["env"]
        assert {name: environment.get(name) for name in expected} == {name: str(v) for name, v in expected.items()}
        log = (job.run / "logs" / "0" / f"rank-{rank:04d}.log").read_text(encoding="utf-8")
        assert f"RANK={rank} LOCAL_RANK={rank % 2} WORLD_SIZE=4 NODE_RANK={rank // 2} host=" in log
    assert (job.run / "logs" / "0" / "step.log").read_text(encoding="utf-8") == "srun\n"


def test_torchrun_starts_one_task_a_node_in_the_environment(site: Site) -> None:
    site.environment()
    job = site.job({"resources": {"nodes": 2}, "launcher": {"kind": "torchrun", "ranks_per_node": 3}}, environment=True)
    assert job.finish() == 0, job.log() + (job.run / "logs/0/step.log").read_text(encoding="utf-8")
    for rank in range(6):
        environment = job.seen(rank)["env"]
        found = {name: environment[name] for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE")}
        assert found == {"RANK": str(rank), "LOCAL_RANK": str(rank % 3), "NODE_RANK": str(rank // 3), "WORLD_SIZE": "6"}
        folder = environment["VIRTUAL_ENV"]
        assert folder == str(site.store / "environments" / ("e" * 32))
        assert environment["PATH"].startswith(folder + "/bin:")


def test_the_submitters_environment_does_not_decide_where_programs_are_found(site: Site) -> None:
    job = site.job({})
    assert job.finish(PATH="/nonexistent", HOME="/nonexistent") == 0, job.log()
    assert job.seen()["env"]["HOME"] != "/nonexistent"
    assert job.seen()["env"]["PATH"].startswith("/usr/local/bin:/usr/bin:")


def test_a_jobs_own_interface_stands(site: Site) -> None:
    job = site.job({"env": {"NCCL_SOCKET_IFNAME": "=ib0"}})
    assert job.finish() == 0
    assert job.seen()["env"]["NCCL_SOCKET_IFNAME"] == "=ib0"


@pytest.mark.skipif(not shutil.which("ip", path="/usr/sbin:/usr/bin:/sbin:/bin"), reason="this machine has no `ip`")
def test_the_interface_is_the_one_that_carries_the_route(site: Site) -> None:
    job = site.job({"preflight": {"enabled": False}})
    assert job.finish() == 0
    environment = job.seen()["env"]
    assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == "lo"


@pytest.mark.parametrize("code", [0, 1, 3, 137])
def test_the_exit_code_of_the_program_is_the_jobs(site: Site, code: int) -> None:
    job = site.job(shell(f"exit {code}"))
    assert job.finish() == code
    outcome = job.outcome()
    assert (outcome["exit_code"], outcome["ended_by"], outcome["success"]) == (code, "program", code == 0)


def test_a_program_that_ends_well_and_leaves_no_artifact_has_failed(site: Site) -> None:
    job = site.job({**shell("true"), "artifact": ARTIFACT})
    assert job.finish() == 65
    assert job.outcome()["success"] is False
    assert "failure: the artifact" in job.log()


def test_debug_traces_script_and_ranks_but_no_secret(site: Site) -> None:
    job = site.job({"debug": True}, secrets={"TOKEN": "never to be seen"})
    assert job.finish() == 0
    rank = (job.run / "logs/0/rank-0000.log").read_text(encoding="utf-8")
    assert "+ rankzero_launch srun" in job.log()
    assert "+ rankzero_chosen=" in rank.replace("++ ", "+ ")
    assert "never" not in job.log() + rank
    assert job.seen()["env"].get("TOKEN") == "never to be seen"
    assert job.seen()["env"]["TORCH_DISTRIBUTED_DEBUG"] == "DETAIL"


def test_a_failing_module_refuses_the_job(site: Site) -> None:
    site.functions["module"] = "return 1"
    job = site.job({"setup": {"modules": ["cuda/12.4"]}})
    assert job.finish() == 78
    outcome = job.outcome()
    assert (outcome["ended_by"], outcome["message"]) == ("setup", "module load cuda/12.4 failed")
    assert not (job.run / "seen-0.json").exists()


def test_modules_and_commands_come_before_the_launch(site: Site) -> None:
    site.functions["module"] = 'export LOADED="$*"'
    job = site.job({"setup": {"modules": ["a/1", "b"], "commands": ["export LINE='it is'", 'LINE="$LINE set"']}})
    assert job.finish() == 0
    assert job.seen()["env"]["LOADED"] == "load a/1 b"
    assert job.seen()["env"]["LINE"] == "it is set"


def test_scripts_of_a_conda_environment_are_sourced_and_the_jobs_variables_win(site: Site, tmp_path: Path) -> None:
    place = conda(tmp_path / "my env")
    wanted = {"environment": {"mode": "path", "path": str(place)}, "env": {"OWN": "job"}}
    job = site.job(wanted, adopted_key="k", conda=True, caches=str(tmp_path / "the caches"))
    assert job.finish(job_id=42) == 0, job.log(42)
    found = job.seen()["env"]
    assert (found["FROM_CONDA"], found["OWN"], found["CONDA_PREFIX"]) == (f"{place} ", "job", str(place))
    assert found["PATH"].split(":")[0] == f"{place}/bin"
    assert found["UV_CACHE_DIR"] == f"{tmp_path}/the caches/uv" and (tmp_path / "the caches").is_dir()
    (place / "bin" / "python").unlink()
    again = site.job(wanted, adopted_key="k", conda=True, generation=2)
    assert again.finish(job_id=43) == 78
    assert "is not on" in again.outcome()["message"]


def test_set_up_may_use_variables_that_nobody_has_set(site: Site) -> None:
    """As module systems, /etc/profile and conda do."""
    site.functions["module"] = 'export LOADED="$*$NOBODY_HAS_SET_THIS"'
    job = site.job({"setup": {"modules": ["cuda"], "commands": ['export LINE="<$NOBODY_HAS_SET_THIS>"']}})
    assert job.finish() == 0, job.log()
    assert (job.seen()["env"]["LOADED"], job.seen()["env"]["LINE"]) == ("load cuda", "<>")


# --- the claim


def test_one_of_two_jobs_of_a_generation_runs(site: Site) -> None:
    job = site.job(shell('echo "$SLURM_JOB_ID" >> "$RANKZERO_RUN_DIR/ran"; sleep 0.3'))
    both = [job.start(job_id=number) for number in (1, 2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    (winner,) = (job.run / "ran").read_text(encoding="utf-8").split()
    loser = {"1": 2, "2": 1}[winner]
    assert (job.run / "claim").read_text(encoding="utf-8") == f"1 lab {winner}\n"
    assert f"belongs to another job (1 lab {winner}): nothing is run here" in job.log(loser)
    assert job.outcome()["job_id"] == winner


def test_a_link_that_is_said_to_have_failed_may_be_ours(site: Site) -> None:
    """A lost reply of a network file system: the claim was made, and the second try finds it there."""
    job = site.job({})
    site.functions["ln"] = 'command ln "$@"; [ "$1" = -s ]'
    assert job.finish() == 0, job.log()
    assert job.outcome()["success"] is True


def test_a_claim_that_cannot_be_made_runs_nothing_and_is_no_success(site: Site) -> None:
    job = site.job({})
    site.functions["ln"] = "return 1"
    assert job.finish() == 73
    assert "can be neither taken nor read" in job.log()
    assert not (job.run / "outcome.json").exists()
    assert not (job.run / "seen-0.json").exists()


def test_a_requeued_job_keeps_its_claim_and_judges_anew(site: Site) -> None:
    job = site.job({"artifact": ARTIFACT})
    assert job.finish(job_id=5) == 0
    (job.site.code / "probe.py").write_text("", encoding="utf-8")
    # The second attempt writes nothing: the artifact of the first does not count.
    assert job.finish(job_id=5, attempt=1) == 65
    assert job.outcome()["artifact"]["errors"] == ["is older than this attempt"]
    assert (job.outcome()["attempt"], job.started()["attempt"]) == (1, 1)
    before = json.loads((job.run / "outcome.before-attempt-1.json").read_text(encoding="utf-8"))
    assert (before["attempt"], before["success"]) == (0, True)
    assert sorted(path.name for path in (job.run / "logs").iterdir()) == ["0", "1", "job.5.log"]


@pytest.mark.parametrize("back", [[], ["logs", "logs/job.1.log"]], ids=["nothing", "what slurmd makes for the log"])
def test_a_run_directory_that_is_gone_is_not_made_again(site: Site, tmp_path: Path, back: list[str]) -> None:
    job = site.job({})
    # Slurm runs its own copy of the script.
    spool = shutil.copy(job.run / "job.sbatch", tmp_path / "slurm_script")
    shutil.rmtree(job.run)
    for name in back:
        (job.run / name).mkdir(parents=True)
    functions = {f"BASH_FUNC_{name}%%": f"() {{ {body}; }}" for name, body in site.functions.items()}
    ended = subprocess.run(
        ["/bin/bash", spool, "--submission", "host:1"],
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "localhost", **functions},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 66
    assert "is gone: nothing is run" in ended.stdout
    assert sorted(str(path.relative_to(job.run)) for path in job.run.rglob("*")) == back


def test_a_runtime_that_is_not_on_the_node_is_named(site: Site) -> None:
    job = site.job({})
    (site.state / "runtime" / ("r" * 32)).unlink()
    assert job.finish() == 78
    assert "is not on this node" in job.log()


# --- by hand


def test_a_script_submitted_by_hand_is_a_new_generation(site: Site) -> None:
    job = site.job({"artifact": ARTIFACT}, secrets={"TOKEN": "x"})
    (job.run.parent / "2").mkdir()
    (job.run.parent / "2" / "claim").write_text("2 lab 99\n", encoding="utf-8")
    assert job.finish(job_id=7, by_hand=True) == 0, job.log(7)
    third = Job(site, job.plan, job.run.parent / "3")
    assert sorted(path.name for path in job.run.parent.iterdir()) == ["1", "2", "3"]
    assert f"submitted by hand: this is generation 3, in {third.run}" in job.log(7)
    assert (third.run / "claim").read_text(encoding="utf-8") == "3 lab 7\n"
    assert third.outcome()["success"] is True
    assert third.seen()["env"].get("TOKEN") == "x"
    event = json.loads((third.run / "journal.jsonl").read_text(encoding="utf-8"))
    assert event.pop("time") > 1
    assert event == {"event": "submitted", "job_id": "7", "message": "submitted by hand"}
    # The generation that it was taken from stays as it was.
    assert not (job.run / "claim").exists()
    assert not (job.run / "outcome.json").exists()
    assert (job.run / "secrets.env").exists()
    assert not (third.run / "secrets.env").exists()


def test_a_generation_made_by_hand_appears_whole(site: Site) -> None:
    """At the moment when it gets its name it has its journal and its claim."""
    job = site.job({}, secrets={"TOKEN": "x"})
    site.functions["mv"] = 'command ls "$2" > "$RANKZERO_RUN_DIR/listed"; command mv "$@"'
    assert job.finish(job_id=7, by_hand=True) == 0
    listed = (job.run / "listed").read_text(encoding="utf-8").split()
    assert listed == ["claim", "contract.json", "job.sbatch", "journal.jsonl", "launch.json", "logs", "secrets.env"]


def test_a_requeued_job_finds_the_generation_that_it_made_by_hand(site: Site) -> None:
    job = site.job({})
    assert job.finish(job_id=7, by_hand=True) == 0
    assert job.finish(job_id=7, by_hand=True, attempt=1) == 0
    assert sorted(path.name for path in job.run.parent.iterdir()) == ["1", "2"]
    assert Job(site, job.plan, job.run.parent / "2").outcome()["attempt"] == 1


def test_where_no_generation_can_be_made_nothing_runs(site: Site) -> None:
    job = site.job({})
    site.functions["mv"] = "return 1"
    assert job.finish(by_hand=True) == 73
    assert "cannot make a new generation" in job.log()
    assert [path.name for path in job.run.parent.iterdir()] == ["1"]


# --- secrets


def test_secrets_are_removed_at_the_end(site: Site) -> None:
    for line in ("true", "exit 3"):
        job = site.job({"name": "j" + line[0], **shell(line)}, secrets={"TOKEN": "x"})
        assert stat.S_IMODE((job.run / "secrets.env").stat().st_mode) == 0o600
        job.finish()
        assert not (job.run / "secrets.env").exists()


def test_secrets_are_kept_after_a_signal_since_a_requeue_may_follow(site: Site) -> None:
    job = site.job(shell('touch "$RANKZERO_RUN_DIR/begun"; exec sleep 60'), secrets={"TOKEN": "x"})
    process = job.start()
    wait_for((job.run / "begun").exists, process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert (job.run / "secrets.env").exists()


def test_a_job_whose_secrets_are_gone_does_not_run_without_them(site: Site) -> None:
    job = site.job({}, secrets={"TOKEN": "x", "OTHER": "y"})
    assert job.finish() == 0
    (job.run / "seen-0.json").unlink()
    assert job.finish(attempt=1) == 78
    assert "the secrets (OTHER,TOKEN) of this run were removed at its end" in job.outcome()["message"]
    assert not (job.run / "seen-0.json").exists()


# --- the working directory


def test_the_working_directory_is_private_and_shows_the_code(site: Site) -> None:
    for name in (".hidden", "..twice", "data.txt", "result.json"):
        (site.code / name).write_text("of the repository", encoding="utf-8")
    (site.code / "package").mkdir()
    (site.code / "dangling").symlink_to("nowhere")
    job = site.job({"artifact": ARTIFACT})
    assert job.finish() == 0, job.log()
    work = job.run / "work"
    assert job.seen()["cwd"] == str(work)
    links = {path.name: os.readlink(path) for path in work.iterdir() if path.is_symlink()}
    names = [".hidden", "..twice", "data.txt", "package", "probe.py", "dangling"]
    assert links == {name: str(site.code / name) for name in names}
    # An artifact that lies in the repository is neither linked nor written through a link.
    assert (work / "result.json").read_text(encoding="utf-8") == '{"loss": 1.0}'
    assert (site.code / "result.json").read_text(encoding="utf-8") == "of the repository"


def test_folders_above_the_artifact_are_real_ones(site: Site) -> None:
    """Else the artifact would be written through a link into the shared snapshot."""
    (site.code / "out" / "deep").mkdir(parents=True)
    (site.code / "out" / "deep" / "result.json").write_text('{"loss": 1.0}', encoding="utf-8")
    (site.code / "out" / "config").write_text("kept", encoding="utf-8")
    job = site.job({**shell("cat out/config; rm -f out/deep/*"), "artifact": {"path": "out/deep/result.json"}})
    assert job.finish() == 65
    assert (site.code / "out" / "deep" / "result.json").exists()
    assert not (job.run / "work" / "out").is_symlink()
    assert (job.run / "work" / "out" / "config").is_symlink()
    assert "kept" in (job.run / "logs/0/rank-0000.log").read_text(encoding="utf-8")


def test_the_artifacts_folder_is_made(site: Site) -> None:
    job = site.job({"artifact": {"path": "new/folder/result.json"}})
    assert job.finish() == 0
    assert (job.run / "work" / "new" / "folder" / "result.json").exists()


def test_a_missing_snapshot_is_named(site: Site) -> None:
    shutil.rmtree(site.code)
    for stage, code in (("never", 69), ("missing", 69)):
        job = site.job({"name": stage, "preflight": {"stage": stage}})
        assert job.finish() == code
        assert job.outcome()["ended_by"] == "setup"
        assert str(site.code) in job.outcome()["message"] + job.log()


# --- where the ranks meet


def test_a_port_in_use_is_skipped(site: Site) -> None:
    first = 15000 + 3 * 37
    taken = []
    try:
        for port in (first, first + 1):
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
                listener.listen()
            except OSError:
                # Somebody else has it: it is in use all the same.
                listener.close()
                continue
            taken.append(listener)
        job = site.job({})
        assert job.finish(job_id=3) == 0
    finally:
        for listener in taken:
            listener.close()
    assert first + 2 <= job.started()["master_port"] < 20000


def test_a_port_that_the_job_names_is_taken_as_it_is(site: Site) -> None:
    job = site.job({"launcher": {"port": 29500}})
    assert job.finish() == 0
    assert job.seen()["env"]["MASTER_PORT"] == "29500"


def test_a_name_that_does_not_resolve_gives_way_to_slurms_address(site: Site) -> None:
    job = site.job({})
    assert job.finish(nodes="no-such-node.invalid") == 0, job.log()
    assert job.started()["master_addr"] == "192.0.2.7"


def test_a_loop_back_address_is_no_meeting_point_of_several_nodes(site: Site) -> None:
    """Debian writes `127.0.1.1 name` into /etc/hosts; every other node would look for the master on itself."""
    site.functions["getent"] = (
        'case "$1" in passwd) command getent "$@" ;; *) case "$2" in '
        'node01) echo "127.0.1.1 STREAM node01" ;; *) echo "198.51.100.2 STREAM x" ;; esac ;; esac'
    )
    site.functions["ip"] = 'echo "198.51.100.2 dev eth0 src 198.51.100.1 uid 0 \\\\    cache"'
    job = site.job({"resources": {"nodes": 2}})
    assert job.finish(nodes="node01,node02") == 0, job.log()
    assert job.started()["master_addr"] == "198.51.100.1"
    alone = site.job({"resources": {"nodes": 1}})
    assert alone.finish(nodes="node01") == 0
    assert alone.started()["master_addr"] == "node01"


def test_without_any_address_the_job_is_refused(site: Site) -> None:
    site.functions["scontrol"] = '[ "$2" = hostnames ] && echo "$3"'
    job = site.job({})
    assert job.finish(nodes="no-such-node.invalid") == 71
    assert job.outcome()["message"] == "the first node no-such-node.invalid has no address"


def test_a_node_list_that_cannot_be_expanded_refuses_the_job(site: Site) -> None:
    site.functions["scontrol"] = "return 1"
    job = site.job({})
    assert job.finish() == 71
    assert "cannot expand the node list" in job.outcome()["message"]


# --- ends


def test_then_end_ends_a_program_that_ignores_term(site: Site) -> None:
    line = "trap '' TERM; echo '{\"loss\": 1.0}' > result.json; while :; do sleep 0.1; done"
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    # Slurm ends what a killed srun leaves behind; here the ranks' process group is that.
    process = job.start()
    try:
        assert process.wait(timeout=60) == 0, job.log()
    finally:
        _kill_those_in(job.run / "work")
    outcome = job.outcome()
    assert (outcome["success"], outcome["ended_by"], outcome["exit_code"]) == (True, "artifact", 137)
    assert "the artifact has landed: ending the step" in job.log()


def test_then_end_lets_a_program_that_heeds_term_finish(site: Site) -> None:
    line = (
        "trap 'touch \"$RANKZERO_RUN_DIR/saved\"; exit 0' TERM; echo '{\"loss\": 1.0}' > result.json; "
        "while :; do sleep 0.1; done"
    )
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    assert job.finish() == 0, job.log()
    assert (job.outcome()["ended_by"], job.outcome()["exit_code"]) == ("artifact", 0)
    assert (job.run / "saved").exists()


def test_then_end_waits_for_a_valid_artifact(site: Site) -> None:
    line = (
        "echo '{\"loss\": 9.0}' > result.json; sleep 0.6; echo '{\"loss\"' > result.json; sleep 0.6; "
        'echo \'{"loss": 1.0, "steps": 3}\' > result.json; exec sleep 60'
    )
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    assert job.finish() == 0, job.log()
    assert job.outcome()["artifact"]["values"] == {"loss": 1.0, "steps": 3}


def test_a_program_that_ends_by_itself_beside_the_watcher_keeps_its_exit_code(site: Site) -> None:
    """The watcher's signal and the end of the step may come in any order, at any moment."""
    for number in range(6):
        line = f"echo '{{\"loss\": 1.0}}' > result.json; sleep 0.{number}; exit 0"
        job = site.job({"name": f"n{number}", **shell(line), "artifact": {**ARTIFACT, "then": "end"}})
        assert job.finish() == 0, job.log()
        outcome = job.outcome()
        expected = {"program": (0,), "artifact": (143, 0)}[outcome["ended_by"]]
        assert outcome["exit_code"] in expected


def test_a_failing_program_is_not_waited_for_by_the_watcher(site: Site) -> None:
    job = site.job({**shell("exit 4"), "artifact": {**ARTIFACT, "then": "end"}})
    assert job.finish() == 4
    assert job.outcome()["ended_by"] == "program"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_goes_on_to_the_ranks(site: Site, number: signal.Signals) -> None:
    line = "trap 'echo saved; exit 5' TERM; touch \"$RANKZERO_RUN_DIR/begun\"; while :; do sleep 0.1; done"
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    process = job.start()
    wait_for((job.run / "begun").exists, process)
    process.send_signal(number)
    assert process.wait(timeout=60) == 5
    outcome = job.outcome()
    assert (outcome["ended_by"], outcome["exit_code"], outcome["success"]) == ("signal", 5, False)
    assert "saved" in (job.run / "logs/0/rank-0000.log").read_text(encoding="utf-8")


def test_a_signal_after_the_artifact_takes_nothing_back(site: Site) -> None:
    line = (
        "trap 'touch \"$RANKZERO_RUN_DIR/told\"' TERM; echo '{\"loss\": 1.0}' > result.json; "
        'until [ -e "$RANKZERO_RUN_DIR/go" ]; do sleep 0.1; done'
    )
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    process = job.start()
    wait_for((job.run / "told").exists, process)
    process.send_signal(signal.SIGTERM)
    (job.run / "go").touch()
    assert process.wait(timeout=60) == 0, job.log()
    assert job.outcome()["ended_by"] == "artifact"


def _kill_those_in(folder: Path) -> None:
    """End the processes whose working directory is this one: they are ours."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd") == str(folder):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def test_logs_named_as_slurm_does_and_the_rank_that_is_followed(site: Site) -> None:
    spec = {"name": "ddp", "logs": {"style": "slurm", "follow": "last"}, "launcher": {"ranks_per_node": 3}}
    job = site.job({"shell": 'echo "I am $RANK"', **spec})
    for attempt in (0, 0, 1):
        assert job.finish(job_id=42, attempt=attempt, SLURMD_NODENAME="node03") == 0, job.log(42)
    logs = job.run / "logs" / "0"
    names = {f"ddp.42.node03.{rank}.out" for rank in range(3)}
    assert {path.name for path in logs.iterdir()} == {*names, "step.log", ".live"}
    # Appended, never truncated: the second run of the same attempt goes on where the first one ended.
    assert (logs / "ddp.42.node03.1.out").read_text(encoding="utf-8").count("\nI am 1\n") == 2
    assert os.readlink(logs / ".live") == "ddp.42.node03.2.out"
    assert "[rankzero] restarted: SLURM_RESTART_COUNT=1\n" in job.log(42)
    assert " attempt=1 " in (job.run / "logs" / "1" / "ddp.42.node03.0.out").read_text(encoding="utf-8")
