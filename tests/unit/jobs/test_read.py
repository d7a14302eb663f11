# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job files, cluster settings and overrides, as the controller reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import launch_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import manifest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, load_job_file, parse_job_text
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job as read_layers
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.documents import MOST_VALUES
from tests.plans import plan

JOB = """\
name: gpt
command: [train.py, --steps, 10]
resources:
  nodes: 2
  time: 12:00:00
env:
  ZIP: 007
  ANSWER: no
  EMPTY: ""
"""


def read_job(
    job: Any,
    cluster: dict[str, Any] | None = None,
    overrides: dict[str, Any] | None = None,
    command_line: dict[str, Any] | None = None,
    cwd: Path | str = "/",
) -> Job:
    return read_layers(job, cluster, overrides, command_line, str(cwd))


def mistakes(*arguments: Any, **options: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read_job(*arguments, **options)
    return caught.value.problems


# --- job files


def test_text_stays_text() -> None:
    layer = parse_job_text(JOB, "jobs/gpt.yml")
    assert layer.data == {
        "name": "gpt",
        "command": ["train.py", "--steps", "10"],
        "resources": {"nodes": "2", "time": "12:00:00"},
        "env": {"ZIP": "007", "ANSWER": "no", "EMPTY": ""},
    }
    assert layer.origin("resources.time") == "jobs/gpt.yml:5"
    assert layer.origin("env") == "jobs/gpt.yml:6"
    assert layer.origin("nothing") == "jobs/gpt.yml"


def test_nothing_in_a_job_file_is_a_template() -> None:
    text = "name: \"{{ lookup('pipe', 'id') }}\"\ncommand: ['{{ 7 * 7 }}']\n"
    assert parse_job_text(text, "x").data == {"name": "{{ lookup('pipe', 'id') }}", "command": ["{{ 7 * 7 }}"]}


@pytest.mark.parametrize("null", ["", "~", "null", "Null", "NULL"])
def test_null_deletes_and_quoted_null_is_text(null: str) -> None:
    assert parse_job_text(f"a: {null}\n", "x").data == {"a": None}
    assert parse_job_text(f"a: '{null}'\n", "x").data == {"a": null}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", r"job: jobs/x.yml:2 is not a job file: "),
        ("a: 1\na: 2\n", r"job: jobs/x.yml:2 is not a job file: the key 'a' appears twice"),
        ("m:\n  a: 1\n  b: 2\n  a: 3\n", r"job: jobs/x.yml:4 is not a job file: the key 'a' appears twice"),
        (
            "a: !!python/object/apply:os.system [id]\n",
            r"job: jobs/x.yml:1 is not a job file: the tag \S+ is not allowed",
        ),
        ("a: 1\nb: !vault x\n", r"job: jobs/x.yml:2 is not a job file: the tag !vault is not allowed"),
        ("a: !!int 1\n", r"job: jobs/x.yml:1 is not a job file: the tag tag:yaml.org,2002:int is not allowed"),
        ("? [a, b]\n: 1\n", r"job: jobs/x.yml:1 is not a job file: a key must be text"),
        ("a: 1\n---\nb: 2\n", r"job: jobs/x.yml:2 is not a job file: "),
        ("a: *nowhere\n", r"job: jobs/x.yml:1 is not a job file: found undefined alias"),
        ("a: &a [*a]\n", r"job: jobs/x.yml:1 is not a job file: an alias refers to a node that contains it"),
        ("a: \x07\n", r"job: jobs/x.yml is not a job file: .*special characters are not allowed"),
        ("\tname: x\n", r"job: jobs/x.yml:1 is not a job file: "),
        ("", r"job: jobs/x.yml must hold a map with at least `name` and `command`, not nothing"),
        ("- a\n", r"job: jobs/x.yml must hold a map with at least `name` and `command`, not a list"),
        ("hello\n", r"job: jobs/x.yml must hold a map with at least `name` and `command`, not text"),
        ('{"rankzero_launch": 1}', r"job: jobs/x.yml is a launch manifest without a `spec`"),
        ('{"rankzero_launch": 1, "spec": []}', r"job: jobs/x.yml is a launch manifest without a `spec`"),
    ],
)
def test_what_is_no_job_file(text: str, message: str) -> None:
    with pytest.raises(RankzeroError, match=message):
        parse_job_text(text, "jobs/x.yml")


def test_aliases_are_followed_and_may_not_multiply_without_end() -> None:
    text = "a: &one {x: 1}\nb: *one\n"
    assert parse_job_text(text, "x").data == {"a": {"x": "1"}, "b": {"x": "1"}}
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(RankzeroError, match=rf"it contains more than {MOST_VALUES} values"):
        parse_job_text("\n".join(lines), "x")


def test_merge_keys_are_ordinary_keys_and_so_unknown() -> None:
    (problem,) = mistakes({**parse_job_text(JOB + "<<: {debug: yes}\n", "x").data})
    assert problem.startswith("<<: unknown key")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "none.yml",
            r"job: there is no file \S+/none.yml on the controller; .*give a path relative to \S+ or an absolute",
        ),
        ("folder", r"job: \S+/folder is a folder; name one job file"),
        ("binary.yml", r"job: \S+/binary.yml cannot be read: .*codec can't decode"),
    ],
)
def test_a_job_file_that_cannot_be_read(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RankzeroError, match=message):
        load_job_file(name, str(tmp_path))


def test_a_misspelt_path_of_a_job_file_gets_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "train.yml").write_text(JOB, encoding="utf-8")
    for path in ("job/train.yml", "jobs/trian.yml", "./jobs/train.yaml", f"{tmp_path}/jobs/train.yaml"):
        with pytest.raises(RankzeroError, match=r"; did you mean \S*jobs/train.yml\?; give a path"):
            load_job_file(path, str(tmp_path))
    with pytest.raises(RankzeroError, match=r"on the controller; give a path"):
        load_job_file("jobs/evaluate.yml", str(tmp_path))


def test_a_job_file_is_named_as_a_person_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "x.yml").write_text(JOB, encoding="utf-8")
    layer, folder = load_job_file("jobs/x.yml", str(tmp_path))
    assert (layer.name, folder) == ("jobs/x.yml", str(tmp_path / "jobs"))
    absolute = str(tmp_path / "jobs" / "x.yml")
    assert load_job_file(absolute, "/somewhere")[0].name == absolute
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_job_file("~/jobs/x.yml", "/somewhere")[0].data == layer.data


# --- layers


@pytest.mark.parametrize("job", [None, ""])
def test_a_job_is_required(job: Any) -> None:
    with pytest.raises(RankzeroError, match=r"job: is required: the path of a job file \(-e job=jobs/train.yml\)"):
        read_job(job)


@pytest.mark.parametrize("job", [7, ["x"], True])
def test_a_job_is_a_path_or_a_map(job: Any) -> None:
    with pytest.raises(RankzeroError, match="job: must be the path of a job file or a job spec as a map, not"):
        read_job(job)


def test_the_later_layer_decides(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(JOB, encoding="utf-8")
    job = read_job(
        "job.yml",
        {"resources": {"partition": "batch", "nodes": 1, "qos": "low"}, "env": {"A": "cluster", "ZIP": "cluster"}},
        {"nodes": 4, "qos": None},
        {"nodes": "8"},
        tmp_path,
    )
    resources = job.spec.resources
    assert (resources.partition, resources.nodes, resources.qos, resources.time) == ("batch", 8, None, "12:00:00")
    assert job.spec.env == {"A": "cluster", "ZIP": "007", "ANSWER": "no", "EMPTY": ""}
    origins = [job.merged.origin(path) for path in ("resources.partition", "resources.nodes", "env.ZIP", "env.A")]
    assert origins == ["launch_cluster", "command line", "job.yml:7", "launch_cluster"]


def test_mistakes_of_all_layers_are_told_at_once() -> None:
    found = mistakes(
        {"name": "x", "command": ["x"], "nods": 2},
        {"state_root": "relative", "resources": {"partitions": "x"}},
        {"nodez": 3},
        {"time": 43200},
    )
    assert [problem.split(":")[0] for problem in found] == [
        "launch_cluster.state_root",
        "override nodez",
        "resources.partitions",
        "resources.time",
        "nods",
    ]
    assert "(set in launch_cluster)" in found[2]
    assert "(set in command line)" in found[3]
    assert "(set in the job)" in found[4]


def test_settings_of_the_cluster() -> None:
    settings = read_job({"name": "x", "command": ["x"]}, {"state_root": "/s", "templates": "t"}).settings
    assert (settings.state_root, settings.store_root, settings.templates) == ("/s", "~/.rankzero/store", "t")


# --- where paths start


@pytest.mark.parametrize(
    ("job", "cluster", "command_line", "code", "project"),
    [
        ("", None, {}, "jobs", "jobs"),
        ("code: {src: ..}\nenvironment: {project: ../p}\n", None, {}, ".", "p"),
        ("", None, {"code.src": "src"}, "src", "jobs"),
        ("code: {src: ..}\n", None, {"code.src": ".."}, "..", "jobs"),
        ("", {"code": {"src": "x"}, "environment": {"project": "y"}}, {}, "x", "y"),
        # A neighbour that the cluster sets says nothing about a path that it does not.
        ("", {"code": {"exclude": ["*.o"]}, "environment": {"torch": "cpu"}}, {}, "jobs", "jobs"),
        ("code: {src: /abs/./x/..}\n", None, {}, "/abs", "jobs"),
    ],
)
def test_a_path_starts_where_it_is_written(
    tmp_path: Path, job: str, cluster: Any, command_line: Any, code: str, project: str
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "x.yml").write_text("name: x\ncommand: [x]\n" + job, encoding="utf-8")
    read = read_job("jobs/x.yml", cluster, None, command_line, tmp_path)
    assert read.code_src == os.path.normpath(tmp_path / code)
    assert read.project == os.path.normpath(tmp_path / project)


def test_paths_of_a_job_that_is_given_in_place_start_at_the_cwd(tmp_path: Path) -> None:
    read = read_job({"name": "x", "command": ["x"], "code": {"src": "a"}}, cwd=tmp_path)
    assert (read.code_src, read.project) == (str(tmp_path / "a"), str(tmp_path))


# --- a command line of sbatch

SCRIPT = """#!/bin/bash
#SBATCH --nodes=2-4 --time=1:00 -J script --partition=long
#SBATCH --signal=USR1@90
srun train.py "$@"
"""


def of_command_line(tmp_path: Path, line: str, **options: Any) -> Job:
    (tmp_path / "train.sh").write_text(SCRIPT, encoding="utf-8")
    return read_job(line, cwd=tmp_path, **options)


def test_each_value_comes_from_the_last_that_says_it(tmp_path: Path) -> None:
    """#SBATCH lines, the command line of sbatch, and the user's own word for the launch, in that order."""
    cluster = {"resources": {"partition": "default", "account": "ml"}}
    line = "sbatch -N 4 --time=2:00 --signal=B:TERM@60 train.sh a 'b c'"
    read = of_command_line(tmp_path, line, cluster=cluster, command_line={"time": "03:00", "program_args": ["d"]})
    resources = read.spec.resources
    assert (resources.nodes, resources.time, resources.partition) == (4, "03:00", "long")
    assert (resources.account, read.spec.name) == ("ml", "script")
    assert read.spec.script_args == ("a", "b c", "d")
    assert (read.spec.checkpoint.signal, "signal" in resources.sbatch) == ("TERM", False)
    origins = read.merged.origins
    assert origins["resources.partition"] == "train.sh:2"
    assert "sbatch" in origins["resources.nodes"]
    assert (read.script, read.code_src) == (str(tmp_path / "train.sh"), str(tmp_path))


def test_a_range_of_nodes_on_the_command_line_goes_before_a_number_in_the_script(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("#!/bin/sh\n#SBATCH -N 4\ntrue\n", encoding="utf-8")
    read = read_job("sbatch -N 2-3 x.sh", cwd=tmp_path)
    assert "resources.nodes" not in read.merged.origins
    assert read.spec.resources.sbatch["nodes"] == "2-3"


def test_a_wrapped_command_needs_no_file(tmp_path: Path) -> None:
    read = of_command_line(tmp_path, "sbatch --wrap='srun hostname'")
    assert (read.spec.name, read.script) == ("wrap", None)
    assert "srun hostname" in (read.spec.script or "")


def test_what_is_wrong_in_a_command_line_is_named(tmp_path: Path) -> None:
    (wrong,) = mistakes("sbatch --array=1-4 x.sh", cwd=tmp_path)
    assert "--array" in wrong and "sweep" in wrong
    with pytest.raises(RankzeroError, match="no file"):
        of_command_line(tmp_path, "sbatch other.sh")


# --- a manifest is a runnable spec


def manifest_of(job: Job) -> tuple[str, str]:
    """(launch.json, key)."""
    made = plan(
        job.spec,
        job.merged,
        code_key="c",
        environment_key=None,
        runtime_key="r",
        state_root="/s",
        store_root="/t",
    )
    return json.dumps(manifest(made, job.merged, {}), indent=1, sort_keys=True), made.key


def again(text: str) -> Job:
    return read_job(dict(parse_job_text(text, "launch.json").data))


@pytest.mark.parametrize(
    "data",
    [
        {"command": ["train.py"]},
        {"shell": "a | b\n# c"},
        {"command": ["x", 1], "resources": {"nodes": "4", "exclusive": True, "sbatch": {"requeue": True}}, "seed": 3},
        {"command": ["x", "é 🚀 \u2028 \x7f \x01", "null", "~", "", "007", "no"]},
        {"command": ["x"], "artifact": {"require": {"loss": {"lt": 4.5}, "ok": {"eq": True}}}, "env": {"A": "null"}},
        {"command": ["x"], "launcher": {"ranks_per_node": "auto", "port": "auto"}, "artifact": {}},
        {"command": ["x"], "secrets": {"T": {"from_env": "X"}}},
    ],
)
def test_a_manifest_launches_what_it_tells_of(data: dict[str, Any]) -> None:
    job = read_job({"name": "x", **data})
    text, key = manifest_of(job)
    found = again(text)
    assert found.spec == job.spec
    assert manifest_of(found)[1] == key
    assert launch_key(found.spec, {"code": "c"}) == key


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))), st.text("\x7f🚀é\u2028'\"")
)
def test_any_text_survives_the_manifest(arguments: list[str], value: str) -> None:
    job = read_job({"name": "x", "command": ["x", *arguments], "env": {"A": value}})
    text, key = manifest_of(job)
    assert again(text).spec == job.spec
    assert manifest_of(again(text))[1] == key


# --- further arguments of the program


def test_further_arguments_follow_the_command_of_the_job() -> None:
    job = {"name": "x", "command": ["train.py", "--steps", "10"]}
    read = read_job(job, overrides={"args": ["model.seq_length=4096"]}, command_line={"args": ["--lr", 3]})
    assert read.spec.command == ("train.py", "--steps", "10", "model.seq_length=4096", "--lr", "3")
    written = read_job({**job, "command": list(read.spec.command)})
    assert launch_key(read.spec, {}) == launch_key(written.spec, {})
    named = read_job(job, overrides={"args": ["a"]}, command_line={"program_args": ["--lr"]})
    assert named.spec.command[-2:] == ("a", "--lr")
    replaced = read_job(job, overrides={"command": ["other.py"]}, command_line={"args": ["--lr"]})
    assert replaced.spec.command == ("other.py", "--lr")


@pytest.mark.parametrize(
    ("job", "arguments", "problem"),
    [
        ({"command": ["train.py"]}, "--lr 3", "args: must be a list"),
        ({"shell": "python train.py"}, ["--lr", "3"], "`shell`"),
    ],
)
def test_further_arguments_need_a_list_to_join(job: dict[str, Any], arguments: Any, problem: str) -> None:
    (found,) = mistakes({"name": "x", **job}, command_line={"args": arguments})
    assert problem in found


def test_the_order_of_maps_in_an_inventory_does_not_count() -> None:
    """ansible-inventory sorts the names, Ansible does not: what is rendered must not say by whom it was read."""
    job = {"name": "x", "command": ["x"]}
    maps = {"env": {"Z": "1", "A": "2"}, "resources": {"time": "1:00", "nodes": 2}, "state_root": "/s"}
    turned = {name: dict(reversed(value.items())) if isinstance(value, dict) else value for name, value in maps.items()}
    first, second = (read_job(job, cluster, None, None, "/") for cluster in (maps, dict(reversed(turned.items()))))
    assert json.dumps(first.merged.data) == json.dumps(second.merged.data)
    assert list(first.merged.origins) == list(second.merged.origins) and list(first.spec.env) == ["A", "Z"]
