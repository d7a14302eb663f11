# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of a shell that fail: in a job's set-up, and in the pipe of its program."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from tests.unit.runtime.harness import Site, shell

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
