# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rendered script does around its ranks: claim, run directory, step, signals, verdict."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest

from tests.unit.runtime.harness import ARTIFACT, Site, shell


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
    assert started.pop("launched") >= started["time"] > 1
    del started["time"]
    port = started.pop("master_port")
    assert 20000 <= port < 24000
    assert started == {
        "job_id": "42",
        "attempt": 0,
        "nodes": ["localhost", "localhost"],
        "master_addr": "127.0.0.1",
        "world_size": 4,
        "seed": 7,
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
    spec = {
        "resources": {"nodes": 2},
        "launcher": {"kind": "torchrun", "ranks_per_node": 3},
        "logs": {"style": "slurm"},
    }
    job = site.job(spec, environment=True)
    assert job.finish(SLURMD_NODENAME="localhost") == 0, job.log() + (job.run / "logs/0/step.log").read_text(
        encoding="utf-8"
    )
    # The lines by which the programs of a course know the nodes, and how the ranks met: in each node's first log.
    logs = "".join(path.read_text(encoding="utf-8") for path in (job.run / "logs" / "0").glob("*.out"))
    banner = r"^torchrun: nnodes=2 nproc_per_node=3 node_rank=(\d) rdzv=\S+:\d+$"
    assert sorted(re.findall(banner, logs, re.MULTILINE)) == ["0", "1"]
    assert len(re.findall(r"^NODE localhost OK -> PY 3\S+ root /\S+$", logs, re.MULTILINE)) == 2
    # The job states no seed: one is drawn, for all ranks.
    seed = job.started()["seed"]
    assert f"seed {seed}, drawn for this launch" in job.log()
    for rank in range(6):
        environment = job.seen(rank)["env"]
        assert environment["RANKZERO_SEED"] == str(seed)
        found = {name: environment[name] for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE")}
        assert found == {"RANK": str(rank), "LOCAL_RANK": str(rank % 3), "NODE_RANK": str(rank // 3), "WORLD_SIZE": "6"}
        folder = environment["VIRTUAL_ENV"]
        assert folder == str(site.store / "environments" / ("e" * 32))
        assert environment["PATH"].startswith(folder + "/bin:")


def test_no_argument_of_the_program_is_taken_for_one_of_torchrun(site: Site) -> None:
    """--sig could mean --signals-to-handle."""
    given = ["--sig", "USR1", "--log", "x", "--", "--node-rank=7", "-h"]
    site.environment()
    job = site.job({"command": ["probe.py", *given], "launcher": {"kind": "torchrun"}}, environment=True)
    assert job.finish(SLURMD_NODENAME="localhost") == 0, job.log()
    assert job.seen()["argv"] == given


def test_the_submitters_environment_does_not_decide_where_programs_are_found(site: Site) -> None:
    job = site.job({})
    assert job.finish(PATH="/nonexistent", HOME="/nonexistent") == 0, job.log()
    assert job.seen()["env"]["HOME"] != "/nonexistent"
    assert job.seen()["env"]["PATH"].startswith("/usr/local/bin:/usr/bin:")


def test_on_a_node_that_does_not_know_the_user_the_home_of_the_login_node_stays(site: Site) -> None:
    site.functions["getent"] = 'case "$1" in passwd) exit 2 ;; *) command getent "$@" ;; esac'
    job = site.job({})
    assert job.finish(HOME=str(site.root)) == 0, job.log()
    env = job.seen()["env"]
    assert env["HOME"] == str(site.root) and env["USER"]


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
    first = 20000 + 3 * 37
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
    assert first + 2 <= job.started()["master_port"] < 24000


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
    job = site.job({"resources": {"nodes": 2}})
    assert job.finish(SLURM_JOB_NODELIST="node[01-02]") == 71
    assert "cannot expand the node list" in job.outcome()["message"]


def test_logs_named_as_slurm_does_and_the_rank_that_is_followed(site: Site) -> None:
    spec = {"name": "ddp", "logs": {"style": "slurm", "follow": "last"}, "launcher": {"ranks_per_node": 3}}
    job = site.job({"shell": 'echo "I am $RANK"', **spec})
    for attempt in (0, 0, 1):
        assert job.finish(job_id=42, attempt=attempt, SLURMD_NODENAME="node03") == 0, job.log(42)
        job.forget()
    logs = job.run / "logs" / "0"
    names = {f"ddp.42.node03.{rank}.out" for rank in range(3)}
    assert {path.name for path in logs.iterdir()} == {*names, "step.log", ".live", "preflight.42.txt"}
    assert all(" proj=" in line for line in (logs / "preflight.42.txt").read_text(encoding="utf-8").splitlines())
    # Appended, never truncated: the second run of the same attempt goes on where the first one ended.
    assert (logs / "ddp.42.node03.1.out").read_text(encoding="utf-8").count("\nI am 1\n") == 2
    assert os.readlink(logs / ".live") == "ddp.42.node03.2.out"
    assert "[rankzero] restarted: SLURM_RESTART_COUNT=1\n" in job.log(42)
    assert " attempt=1 " in (job.run / "logs" / "1" / "ddp.42.node03.0.out").read_text(encoding="utf-8")
