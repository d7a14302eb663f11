# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of a shell that fail: in a job's set-up, and in the pipe of its program."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from tests.unit.runtime.harness import ARTIFACT, Job, Site, shell, wait_for

RAN = 'echo ran >> "$RANKZERO_RUN_DIR/ran"'


@pytest.mark.parametrize(
    ("commands", "line", "code"),
    [
        (["no_such_command --with words"], "no_such_command --with words", 127),
        (["true", "false"], "false", 1),
        (["(exit 4)", "true"], "(exit 4)", 4),
        (["if true; then", "  false", "fi"], "false", 1),
        (["for one in 1 2; do\n  false\n  true\ndone"], "false", 1),
        (["false | cat"], "false | cat", 1),
        (["activate() { return 9; }", "activate env; true"], "activate env; true", 9),
        (["source {ends_badly}"], "source {ends_badly}", 6),
        (["set +u; set -e", "false"], "false", 1),
    ],
)
def test_a_line_of_the_set_up_that_fails_ends_the_job_before_its_ranks(
    site: Site, tmp_path: Path, commands: list[str], line: str, code: int
) -> None:
    (tmp_path / "ends_badly").write_text("true\nreturn 6\n", encoding="utf-8")
    given = [text.replace("{ends_badly}", f"{tmp_path}/ends_badly") for text in commands]
    job = site.job({**shell(RAN), "setup": {"commands": given}})
    assert job.finish() == 78, job.log()
    outcome = job.outcome()
    assert (outcome["ended_by"], outcome["success"]) == ("setup", False)
    wanted = line.replace("{ends_badly}", f"{tmp_path}/ends_badly")
    assert f"the set-up failed: `{wanted}` ended with exit code {code} (line " in outcome["message"]
    number = int(outcome["message"].partition("(line ")[2].split()[0])
    assert (job.run / "job.sbatch").read_text(encoding="utf-8").splitlines()[number - 1].strip() == wanted
    assert not (job.run / "ran").exists()


@pytest.mark.parametrize(
    "commands",
    [
        ["false || true"],
        ["[ -n '' ] && false"],
        ["if false; then", "  false", "fi"],
        ["looks() { false; [ -e /nowhere ]; return 0; }", "looks"],
        ["source {looks}"],
        ["! false", "while false; do true; done"],
        ["echo {a,b} | grep -q a", "kept=$(false; echo x)"],
        ["export OF_AN_UNSET=$NOWHERE"],
    ],
)
def test_what_does_not_fail_as_a_whole_goes_on(site: Site, tmp_path: Path, commands: list[str]) -> None:
    """A profile looks for much that is missing: of a file that is sourced, the end counts."""
    (tmp_path / "looks").write_text("grep -q x /dev/null\n[ -e /nowhere ]\ntrue\n", encoding="utf-8")
    given = [text.replace("{looks}", f"{tmp_path}/looks") for text in commands]
    job = site.job({**shell(RAN), "setup": {"commands": given}})
    assert job.finish() == 0, job.log()
    assert (job.run / "ran").exists()


def test_after_the_set_up_a_line_of_the_script_may_fail_again(site: Site) -> None:
    job = site.job({**shell(RAN), "setup": {"commands": ["true"]}})
    script = (job.run / "job.sbatch").read_text(encoding="utf-8")
    (job.run / "job.sbatch").write_text(script.replace("# --- environment", "false\nfalse | true"), encoding="utf-8")
    assert job.finish() == 0, job.log()


def test_without_a_module_system_the_job_says_so(site: Site) -> None:
    job = site.job({**shell(RAN), "setup": {"modules": ["cuda/12.4"]}})
    # This machine may have one.
    script = (job.run / "job.sbatch").read_text(encoding="utf-8").replace(". /etc/profile", "unset -f module; false")
    (job.run / "job.sbatch").write_text(script, encoding="utf-8")
    assert job.finish() == 78, job.log()
    assert job.outcome()["message"].startswith("setup.modules: ") and not (job.run / "ran").exists()


def test_a_module_system_that_the_profile_defines_is_found(site: Site, tmp_path: Path) -> None:
    """A profile may print, and end with a failure."""
    (tmp_path / "profile").write_text('module() { echo "module $*"; }\necho hello\nfalse\n', encoding="utf-8")
    job = site.job({**shell(RAN), "setup": {"modules": ["cuda/12.4"]}})
    script = (job.run / "job.sbatch").read_text(encoding="utf-8").replace("/etc/profile", f"{tmp_path}/profile")
    (job.run / "job.sbatch").write_text(script, encoding="utf-8")
    assert job.finish() == 0, job.log()
    assert "module load cuda/12.4" in job.log()


def test_a_program_that_is_not_found_is_explained_by_the_log_of_its_rank(site: Site) -> None:
    job = site.job({"command": ["work.sh", "--with", "words"]})
    assert job.finish() == 127, job.log()
    log = job.run / "logs" / "0" / "rank-0000.log"
    read = events.Reader(SIGNATURES).read(str(log), lines.parse(log.read_bytes().split(b"\n")))
    found = cause.find_cause([read])
    assert found.family == "script_error" and found.root is not None
    assert dict(found.root.captured)["command"] == "work.sh" and "./work.sh" in found.root.remedy


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("(exit 3) | cat", 3),
        ("set +o pipefail; (exit 3) | cat", 0),
        ("true | cat", 0),
    ],
)
def test_a_program_in_a_pipe_counts(site: Site, line: str, code: int) -> None:
    job = site.job(shell(line))
    assert job.finish() == code, job.log()
    assert job.outcome()["success"] is (code == 0)


NODES = {"resources": {"nodes": 2}}
#: The lines of each node, which note in one file what they see.
NOTE = 'echo "$SLURMD_NODENAME {} $kept" >> "$RANKZERO_RUN_DIR/seen"'


def noting(site: Site, program: str, **setup: object) -> Job:
    return site.job({**shell(program), **NODES, "setup": setup})


def seen(job: Job) -> list[str]:
    return (job.run / "seen").read_text(encoding="utf-8").splitlines()


def test_a_line_may_end_the_others(site: Site) -> None:
    job = noting(site, RAN, before_ranks=["exit 0", "false"])
    assert job.finish(nodes="node01,node02") == 0, job.log()


@pytest.mark.parametrize("code", [0, 3])
def test_lines_run_once_on_each_node_before_its_ranks_and_after_them(site: Site, code: int) -> None:
    """In one shell for each, in the ranks' folder, and also where the ranks fail."""
    before = ["kept=x", NOTE.format("before"), "[ $PWD -ef $RANKZERO_RUN_DIR/work ]"]
    program = f'echo "$RANK ranks" >> "$RANKZERO_RUN_DIR/seen"; exit {code}'
    job = noting(site, program, before_ranks=before, after_ranks=[NOTE.format("after")])
    assert job.finish(nodes="node01,node02") == code, job.log()
    told = seen(job)
    assert sorted(told[:2]) == ["node01 before x", "node02 before x"]
    assert sorted(told[2:4]) == ["0 ranks", "1 ranks"]
    assert sorted(line.rstrip() for line in told[4:]) == ["node01 after", "node02 after"]
    assert "after_ranks" not in job.outcome()


@pytest.mark.parametrize(
    ("before", "line", "code"),
    [
        (["false; true"], "false; true", 1),
        (["true", "exit 9"], "exit 9", 9),
        (["if true; then\n  no_such_command\nfi"], "if true; then\n  no_such_command\nfi", 127),
        (['[ "$SLURMD_NODENAME" != node02 ]'], '[ "$SLURMD_NODENAME" != node02 ]', 1),
        (["for in"], "for in", 2),
    ],
)
def test_a_line_before_the_ranks_that_fails_ends_the_job_with_node_and_line(
    site: Site, before: list[str], line: str, code: int
) -> None:
    job = noting(site, RAN, before_ranks=before, after_ranks=[NOTE.format("after")])
    assert job.finish(nodes="node01,node02") == 78, job.log()
    outcome = job.outcome()
    nodes = "node02" if "node02" in line else "node01 and 1 more"
    assert (
        outcome["message"] == f"the set-up failed: `{line}` ended with exit code {code} on {nodes} (setup.before_ranks)"
    )
    assert (outcome["ended_by"], outcome["success"]) == ("setup", False)
    assert not (job.run / "ran").exists() and not (job.run / "seen").exists()


def test_a_line_after_the_ranks_that_fails_is_said_and_changes_no_verdict(site: Site) -> None:
    """The artifact may be what it has copied out."""
    copied = "echo '{\"loss\": 1}' > result.json; false"
    spec = {**shell("true"), **NODES, "artifact": ARTIFACT, "setup": {"after_ranks": [copied]}}
    job = site.job(spec)
    assert job.finish(nodes="node01,node02") == 0, job.log()
    outcome = job.outcome()
    assert outcome["success"] and outcome["artifact"]["valid"]
    assert outcome["after_ranks"] == f"`{copied}` ended with exit code 1 on node01 and 1 more (setup.after_ranks)"


#: A line that ends with TERM, and one that nothing but KILL ends.
WAITS = 'echo > "$RANKZERO_RUN_DIR/at-it"; until [ -e "$RANKZERO_RUN_DIR/go" ]; do sleep 0.1; done'
LINES = [WAITS, f"trap '' TERM; {WAITS}"]


@pytest.mark.parametrize("line", LINES, ids=["heeds", "ignores"])
def test_lines_have_a_time_limit(site: Site, line: str) -> None:
    job = noting(site, RAN, before_ranks=[f'[ "$SLURMD_NODENAME" = node01 ] || {{ {line}; }}'], budget=2)
    code = job.finish(nodes="node01,node02")
    (job.run / "go").touch()
    assert code == 78, job.log()
    assert "setup.before_ranks did not end within 2 s (setup.budget) on node02" in job.outcome()["message"]
    assert not (job.run / "ran").exists()


@pytest.mark.parametrize("line", LINES, ids=["heeds", "ignores"])
def test_a_signal_ends_the_lines_after_the_ranks_and_the_verdict_stays(site: Site, line: str) -> None:
    """Slurm ends a job seconds after it has said so: the verdict must be written by then, whatever a line does."""
    job = noting(site, "true", after_ranks=[line])
    process = job.start(nodes="node01,node02")
    wait_for((job.run / "at-it").exists, process)
    process.terminate()
    try:
        assert process.wait(timeout=60) == 0, job.log()
    finally:
        (job.run / "go").touch()
    outcome = job.outcome()
    assert outcome["success"] and outcome["after_ranks"] == "setup.after_ranks was ended by a signal"
