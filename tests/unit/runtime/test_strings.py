# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a user writes reaches the program unchanged and executes nothing: real template, real runtime, real bash.

A job costs a second of processes, so that each carries a hundred strings; `benchmarks/run specs` has a script for each.
"""

from __future__ import annotations

import string
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import RUNTIME_NAMES, reserved
from tests.unit.runtime.harness import Job, Site
from tests.unit.runtime.job_processes import wait_until_gone

MARK = "never to be seen"
#: Each would leave a file in the canary's folder, were it ever read by a shell.
EXECUTABLE = [
    "$(touch CANARY/a)", "`touch CANARY/b`", "; touch CANARY/c;", "' ; touch CANARY/d; '", '" ; touch CANARY/e; "',
    "\ntouch CANARY/f\n", "&& touch CANARY/g", "| touch CANARY/h", "${x:=$(touch CANARY/i)}", "\\\ntouch CANARY/j",
    "x\n#SBATCH --comment=`touch CANARY/k`\n", "a[$(touch CANARY/l)]", "<(touch CANARY/m)", "> CANARY/n",
    "{{ 7 * 7 }}", "{% raw %}", "{# x #}",
]  # fmt: skip
AWKWARD = [
    "", " ", "  two  spaces ", "-", "--", "-n", "-e", "--output=x", "#", "# x", "a#b", "\\", "\\\\", "\\n", "!", "!!",
    "!x", "*", "?", "[a-z]", "~", "~root", "$HOME", "${PATH}", "$", "$$", "'", "''", '"', '""', "a'b\"c", "\t", "\n",
    "\n\n", "line\nline\n", "\r", "\r\n", "é", "日本語", "🚀", "\u2028", "\u200d", "\x01", "\x1b[31m", "\x7f", "\x80",
    "\ufeff", "=", "a=b", "a=b=", ",", ";", "&", "|", "%j", "%", "null", "true", "~", "(", ")", "{a,b}", "EOF",
    "GENERATION-0123456789abcdef01234567", "GENERATION-",
]  # fmt: skip

text = st.one_of(
    st.sampled_from(AWKWARD),
    st.sampled_from(EXECUTABLE),
    st.lists(st.sampled_from(AWKWARD + EXECUTABLE), max_size=4).map("".join),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
)
#: Names of our own scripts' variables, past and likely, are as good as any other name.
names = st.one_of(
    st.sampled_from(
        ["log", "name", "value", "code", "chosen", "address", "helper", "line", "owner", "x", "i", "A", "a1"]
    ),
    st.builds(
        str.__add__,
        st.sampled_from(string.ascii_letters + "_"),
        st.text(string.ascii_letters + string.digits + "_", max_size=12),
    ),
).filter(lambda name: not reserved(name) and not name.startswith(("LD_", "PYTHON")) and name not in ("PATH", "LC_ALL"))
#: One part of a path on the cluster. state_root and store_root may not hold a newline, % or a backslash.
part = st.one_of(
    st.sampled_from(
        ["with space", "$(touch x)", "`id`", "it's", '"quoted"', "#hash", "-dash", "é日", "a;b", "*", "~", "&"]
    ),
    st.text(st.characters(exclude_characters="\0/\n%\\", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12),
).filter(lambda word: word not in (".", ".."))


def few(jobs: int) -> settings:
    return settings(
        max_examples=jobs,
        # A job that fails shows its strings; to shrink them would take minutes.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )


def armed(value: str, folder: Path) -> str:
    return value.replace("CANARY", str(folder / "canary"))


def checked(job: Job, folder: Path, expected: set[str]) -> None:
    """The job succeeded, the canary's folder is empty, and nothing but what we know of was made. The sampler may start
    late on a busy machine: what it makes counts, and the folder is not removed under it.
    """
    code = job.finish()
    assert code == 0, job.log()
    wait_until_gone(job)
    assert list((folder / "canary").iterdir()) == []
    assert {path.name for path in job.run.iterdir()} - {
        "outcome.json",
        "started.json",
        ".attempt",
        "work",
        "logs",
        "ended",
        "preflight",
        "monitor",
    } == {
        ".script",
        "claim",
        "job.sbatch",
        "launch.json",
        "contract.json",
        "journal.jsonl",
        *expected,
    }
    assert {path.name for path in folder.iterdir()} == {"canary", "tools", job.site.state.name, job.site.store.name}


@few(4)
@given(
    arguments=st.lists(text, min_size=60, max_size=100),
    env=st.dictionaries(names, text, min_size=20, max_size=40),
    secrets=st.dictionaries(names, text, min_size=10, max_size=20),
    roots=st.tuples(part, part),
    artifact=st.lists(part.filter(lambda word: word.strip()), min_size=10, max_size=20),
    files=st.lists(part, min_size=40, max_size=60, unique=True),
)
def test_arguments_environment_secrets_and_paths(
    arguments: list[str],
    env: dict[str, str],
    secrets: dict[str, str],
    roots: tuple[str, str],
    artifact: list[str],
    files: list[str],
) -> None:
    """Of paths: the roots on the cluster, files of the code snapshot, the artifact's path."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "canary").mkdir()
        arguments = [armed(value, folder) for value in arguments]
        env = {key: armed(value, folder) for key, value in env.items() if key not in secrets}
        # A value that names its own variable is refused.
        env = {key: value.replace("$" + key, "$").replace("${" + key + "}", "$") for key, value in env.items()}
        secrets = {key: MARK + armed(value, folder) for key, value in secrets.items()}
        site = Site(folder, "s" + roots[0], "t" + roots[1])
        for file in files:
            (site.code / ("f" + file)).write_text(file, encoding="utf-8")
        path = "a" + "/".join(artifact)
        job = site.job(
            {
                "command": ["probe.py", *arguments],
                "env": env,
                "artifact": {"path": path, "require": {"loss": {"lt": 2}}},
            },
            secrets=secrets,
        )
        script = (job.run / "job.sbatch").read_text(encoding="utf-8")
        checked(job, folder, {"seen-0.json", "secrets.sums"})
        seen = job.seen()
        assert seen["argv"] == arguments
        assert {key: seen["env"].get(key) for key in env} == env
        assert {key: seen["env"].get(key) for key in secrets} == secrets
        assert MARK not in script + job.log()
        # What the ranks' own wrapper uses stays with it.
        assert not [key for key in seen["env"] if key.startswith("rankzero_")]
        assert set(RUNTIME_NAMES) - {"GROUP_RANK"} <= set(seen["env"])
        assert job.outcome()["artifact"]["path"] == str(job.run / "work" / path)
        assert job.outcome()["success"] is True
        for file in files:
            assert (job.run / "work" / ("f" + file)).read_text(encoding="utf-8") == file


@few(2)
@given(lines=st.lists(text, min_size=60, max_size=100))
def test_a_shell_line_is_one_argument_of_bash(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "canary").mkdir()
        shell = 'printf %s "$BASH_EXECUTION_STRING" > "$RANKZERO_RUN_DIR/said"; exit 0\n' + armed(
            "".join(lines), folder
        )
        job = Site(folder).job({"shell": shell})
        checked(job, folder, {"said"})
        assert (job.run / "said").read_bytes() == shell.encode()
