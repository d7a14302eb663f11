# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The #SBATCH lines of a script, as sbatch reads them, and the part of the script that is in the key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import batch_script
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch import others, reader
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.secrets import exposed_in_script


def read(*lines: str) -> batch_script.Header:
    return batch_script.read_header("\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "true", ""]))


def values(header: batch_script.Header) -> dict[str, Any]:
    """The values by dotted path."""
    found: dict[str, Any] = {}
    for path in header.lines:
        value: Any = header.data
        for part in path.split("."):
            value = value[part]
        found[path] = value
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--nodes=4", {"resources.nodes": "4"}),
        ("-N4", {"resources.nodes": "4"}),
        ("-N 4 -t10", {"resources.nodes": "4", "resources.time": "10"}),
        ("--nodes=2-4", {"resources.sbatch.nodes": "2-4"}),
        ("-n 16", {"resources.sbatch.ntasks": "16"}),
        ("--ntasks-per-node 8 -c 4", {"launcher.ranks_per_node": "8", "resources.cpus_per_rank": "4"}),
        ("--gpus-per-node=h100:8", {"resources.gpus_per_node": "8", "resources.gpu_type": "h100"}),
        ("--gres=gpu:8,lscratch:50", {"resources.gpus_per_node": "8", "resources.gres": ["lscratch:50"],
                                      "resources.sbatch.gres": "gpu:8,lscratch:50"}),
        ("--gres gpu", {"resources.gpus_per_node": "1", "resources.sbatch.gres": "gpu"}),
        ("--gres=none", {"resources.sbatch.gres": "none"}),
        ("--gpus=16", {"resources.sbatch.gpus": "16"}),
        ("--exclusive --partition=p", {"resources.exclusive": True, "resources.partition": "p"}),
        ("--exclusive=user -p p", {"resources.sbatch.exclusive": "user", "resources.partition": "p"}),
        ("--part=p --accou=a", {"resources.partition": "p", "resources.account": "a"}),
        ("--export=ALL,A=1,B=x:y,z", {"env.A": "1", "env.B": "x:y"}),
        ("--export=NONE", {"resources.sbatch.export": "NONE"}),
        ("--export=A=1,B", {"resources.sbatch.export": "NONE", "env.A": "1"}),
        ("--export=NONE --export=all,A=1", {"env.A": "1"}),
        ("--signal=B:SIGUSR1@90", {"checkpoint.signal_before_end": "90", "checkpoint.signal": "USR1"}),
        ("--signal=USR1@90", {"resources.sbatch.signal": "USR1@90"}),
        ("--requeue", {"resources.sbatch.requeue": True}),
        ("--mem=64G --mem-per-gpu=8G", {"resources.memory": "64G", "resources.sbatch.mem-per-gpu": "8G"}),
        ("--mail-type=END --mail-type=FAIL", {"resources.sbatch.mail-type": "END,FAIL"}),
        ("-J 'a b'", {"name": "a-b", "resources.sbatch.job-name": "a b"}),
        ("-o logs/%x-%j.out -e logs/%j.err", {"resources.sbatch.output": "logs/%x-%j.out",
                                             "resources.sbatch.error": "logs/%j.err"}),
        ("--comment=\"a \\\"b\\\" \\# c\" # the rest", {"resources.sbatch.comment": 'a "b" # c'}),
        ("--time=1:00#comment", {"resources.time": "1:00"}),
        ("--parsable -W --quiet", {}),
        ("-Hk", {"resources.sbatch.hold": True, "resources.sbatch.no-kill": True}),
        ("--some-site-plugin=x", {"resources.sbatch.some-site-plugin": "x"}),
        ("--container-image=nvcr.io\\#nvidia/pytorch:24.07-py3 --no-container-mount-home --container-remap-root",
         {"container.runtime": "pyxis", "container.image": "nvcr.io#nvidia/pytorch:24.07-py3",
          "container.mount_home": False, "container.remap_root": True}),
        ("--container-mounts=/a:/b:ro,/c --container-workdir=/b --container-env=A,B --container-writable",
         {"container.mounts": ["/a:/b:ro", "/c:/c"], "container.workdir": "/b", "container.env": ["A", "B"],
          "container.writable": True}),
        ("--no-container-entrypoint", {}),
    ],
)  # fmt: skip
def test_an_option_arrives_where_it_belongs(line: str, expected: dict[str, Any]) -> None:
    header = read(line)
    assert (values(header), header.problems) == (expected, [])


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("--array=1-9", "sweep"),
        ("hetjob", "parts"),
        ("--wrap=x", "wrap"),
        ("--test-only", "plan"),
        ("--container-name=x", "half made"),
        ("--container-save=x.sqsh", "container.build"),
        ("--container=bundle", "oci"),
        ("--container-unshare=pid", "no key"),
        ("--container-mounts=a", "container.mounts"),
        ("--no=1", "full name"),
        ("-y", "-y"),
        ("word", "word"),
        ("--comment='open", "not closed"),
        ("--signal=B:CONT@9", "USR1"),
        ("-M other", "inventory"),
        ("--dependency=singleton", "afterany"),
        ("-d afterok:7,singleton", "afterany"),
    ],
)
def test_what_would_not_be_one_launch_is_refused_with_its_line(line: str, word: str) -> None:
    ((number, sentence),) = batch_script.read_header(f"#!/bin/sh\n# a comment\n\n#SBATCH {line}\n").problems
    assert number == 4
    assert word in sentence


def test_lines_count_up_to_the_first_command_and_words_go_on_over_lines() -> None:
    text = "#!/bin/sh\n#SBATCH --nodes\n  # comment\n#SBATCH 2\n##SBATCH -N 3\n# SBATCH -N 4\n\ntrue\n#SBATCH -N 5\n"
    header = batch_script.read_header(text)
    assert values(header) == {"resources.nodes": "2"}
    assert header.lines == {"resources.nodes": 2}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("#SLURM -n 2\n#SBATCH -N 1", {"resources.sbatch.ntasks": "2", "resources.nodes": "1"}),
        ("#SBATCH -n 2 '' -N 3\n#SBATCH --comment= -c 2", {
            "resources.sbatch.ntasks": "2", "resources.sbatch.comment": "", "resources.cpus_per_rank": "2"}),
        ("#SBATCH -J a\\ -n2 \\\n#SBATCH -N 3", {
            "name": "a", "resources.sbatch.job-name": "a", "resources.sbatch.ntasks": "2", "resources.nodes": "3"}),
        ("#SBATCH -J 'a\\ b'", {"name": "a-b", "resources.sbatch.job-name": "a b"}),
    ],
)  # fmt: skip
def test_lines_are_divided_as_sbatch_does_it(lines: str, expected: dict[str, Any]) -> None:
    """As Slurm 22.05 does it: tests/cluster/batch_scripts has these lines."""
    header = batch_script.read_header(f"#!/bin/sh\n{lines}\n")
    assert (values(header), header.problems) == (expected, [])


@pytest.mark.parametrize("line", ["#PBS -l nodes=2", "#BSUB -n 2", "#PBS", "#BSUB -W 1:30"])
def test_lines_of_other_systems_are_refused_unless_sbatch_is_to_leave_them_alone(line: str) -> None:
    ((number, sentence),) = batch_script.read_header(f"#!/bin/sh\n{line}\ntrue\n{line}\n").problems
    assert number == 2 and line.split()[0] in sentence and "--ignore-pbs" in sentence
    assert not batch_script.read_header(f"#!/bin/sh\n{line}\n#SBATCH --ignore-pbs\n").problems
    assert not batch_script.read_header(f"#!/bin/sh\n #{line}\n").problems


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("#PBS -l nodes=2:ppn=8,walltime=01:00:00", "write #SBATCH --nodes=2 --ntasks-per-node=8 --time=01:00:00 in"),
        ("#PBS -l select=2:ngpus=4:mpiprocs=4:mem=64gb", "--nodes=2 --gpus-per-node=4 --ntasks-per-node=4 --mem=64gb"),
        ("#PBS -l select=2:ncpus=8", "#PBS -l select=2:ncpus=8: sbatch reads #PBS as well; write its options as"),
        ("#PBS -q gpu", "write #SBATCH --partition=gpu in its place"),
        ("#BSUB -n 8", "write #SBATCH --ntasks=8 in its place"),
        ("#BSUB -W 1:30", "write its options as sbatch has them"),
        ("#$ -pe smp 8", "is a line of Grid Engine, which Slurm ignores; write #SBATCH --ntasks=8 in its place"),
        ("#$ -l h_rt=01:00:00", "write #SBATCH --time=01:00:00 in its place, or remove it"),
        ("#PJM -L node=2", "is a line of PJM, which Slurm ignores; write its options as sbatch has them"),
    ],
)
def test_a_line_of_another_system_is_answered_with_that_of_sbatch(line: str, instead: str) -> None:
    ((_number, sentence),) = batch_script.read_header(f"#!/bin/sh\n{line}\ntrue\n").problems
    assert instead in sentence, sentence


def test_what_slurm_ignores_in_a_script_of_its_own_is_a_warning() -> None:
    text = "#!/bin/sh\n#SBATCH -N 2\n#$ -pe smp 8\n#$HOME is not set\ntrue\n#$ -q x\n"
    assert batch_script.read_header(text).problems == []
    (warning,) = others.warnings(text)
    assert "line 3" in warning and "Grid Engine" in warning and "#SBATCH --ntasks=8" in warning


def test_blanks_are_those_of_the_c_library() -> None:
    """The blank of web pages (U+00A0) is a part of a word, and a line of it a command."""
    text = "#!/bin/sh\n#SBATCH\v--comment=a\u00a0b\f-n2\n\t\f\n#SBATCH -N 2\n\u00a0\n#SBATCH -N 3\n"
    expected = {"resources.sbatch.comment": "a\u00a0b", "resources.sbatch.ntasks": "2", "resources.nodes": "2"}
    assert values(batch_script.read_header(text)) == expected


def test_only_comments_before_the_first_command_leave_the_digest_alone() -> None:
    text = "#!/bin/bash\n#SBATCH -t 5\n# words\n\ncat <<EOF\n# data\nEOF\n"
    digest = batch_script.body_digest(text)
    assert batch_script.body_digest("#!/bin/bash\n#SBATCH -t 50 -p other\n\ncat <<EOF\n# data\nEOF\n") == digest
    for other in (text.replace("# data", "# other data"), text.replace("bash", "sh"), text + "# end\n"):
        assert batch_script.body_digest(other) != digest
    # A script of nothing but comments is still one.
    assert batch_script.body_digest("#!/bin/sh") != batch_script.body_digest("#!/bin/bash")


@pytest.mark.parametrize(
    ("text", "word"),
    [("echo\n", "first line"), ("", "first line"), ("#!/bin/sh\r\ntrue\r\n", "CR LF"), ("#!/bin/sh\n\0", "NUL")],
)
def test_what_sbatch_would_not_take_is_no_script(text: str, word: str) -> None:
    assert word in (batch_script.problem(text) or "")


def test_a_script_is_taken() -> None:
    assert batch_script.problem("#!/bin/sh\ntrue\n") is None


@pytest.mark.parametrize(
    ("line", "expected", "program"),
    [
        ("sbatch x.sh", {}, ("x.sh", [])),
        ("/usr/bin/sbatch -N 4 x.sh a '-N 2' --b", {"resources.nodes": "4"}, ("x.sh", ["a", "-N 2", "--b"])),
        ("sbatch --parsable -Hk -- --x.sh", {"resources.sbatch.hold": True, "resources.sbatch.no-kill": True},
         ("--x.sh", [])),
        ("sbatch --comment='a # b' x", {"resources.sbatch.comment": "a # b"}, ("x", [])),
        ("sbatch -N 4 \\\n  --comment=a\\\nb \\\n x.sh a", {"resources.nodes": "4", "resources.sbatch.comment": "ab"},
         ("x.sh", ["a"])),
    ],
)  # fmt: skip
def test_a_command_line_is_read_up_to_its_script(
    line: str, expected: dict[str, Any], program: tuple[str, list[str]]
) -> None:
    assert batch_script.is_command_line(line)
    given = batch_script.read_command_line(line)
    assert (values(given.header), given.header.problems) == (expected, [])
    assert (given.script, given.arguments) == program


def test_a_wrapped_command_is_a_script() -> None:
    given = batch_script.read_command_line("sbatch -N2 --wrap='srun hostname | sort'")
    assert batch_script.problem(given.script or "") is None
    assert "\nsrun hostname | sort\n" in (given.script or "")
    assert values(given.header) == {"resources.nodes": "2", "name": "wrap", "resources.sbatch.job-name": "wrap"}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("sbatch -N 4", "script"),
        ("sbatch -N 'x", "quotation"),
        ("sbatch --wrap=x y.sh", "y.sh"),
        ("sbatch -N1 : -N2 x.sh", "parts"),
        ("sbatch --array=1-3 x.sh", "sweep"),
    ],
)
def test_a_command_line_that_is_no_launch_is_refused(line: str, word: str) -> None:
    problems = batch_script.read_command_line(line).header.problems
    assert any(word in sentence for _line, sentence in problems), problems


@pytest.mark.parametrize("text", ["train.sbatch", "jobs/sbatch", "sbatch", "sbatch.yml -x", "xsbatch a"])
def test_a_path_is_no_command_line(text: str) -> None:
    assert not batch_script.is_command_line(text)


def test_a_script_says_the_name_of_its_job() -> None:
    assert reader.job_name("#!/bin/sh\n#SBATCH -N2 --job-na 'a b'\n#SBATCH word -Jc\ntrue\n#SBATCH -J d\n") == "c"
    assert reader.job_name("#!/bin/sh\n#SBATCH -W -N 2\n") is None


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("export HF_TOKEN=hf_abc", True),
        ("WANDB_API_KEY='0123' srun python t.py", True),
        ("A=1; MY_PASSWORD=x", True),
        ("export HF_TOKEN=$(cat ~/.token)", False),
        ('export HF_TOKEN="$OTHER"', False),
        ("unset HF_TOKEN", False),
        ("TOKENIZER=gpt2", False),
        ("HF_TOKEN= srun x", False),
        ("python t.py --lr=3", False),
    ],
)
def test_a_literal_secret_of_a_script_is_named_and_not_shown(line: str, named: bool) -> None:
    warnings = exposed_in_script(f"#!/bin/bash\n{line}\n")
    assert bool(warnings) == named
    assert all("line 2" in text and not {"hf_abc", "0123"} & {*text.replace("'", " ").split()} for text in warnings)


@given(st.text(), st.lists(st.text(alphabet=st.characters(exclude_characters="\n"))))
def test_any_text_is_read(first: str, lines: list[str]) -> None:
    """Whatever stands in a script, reading it ends, and each option is in the data or among the mistakes."""
    text = "\n".join([f"#!{first}", *(f"#SBATCH {line}" for line in lines)])
    header = batch_script.read_header(text)
    assert all(isinstance(number, int) and sentence for number, sentence in header.problems)
    assert batch_script.body_digest(text)
    assert reader.launch_name(first)
