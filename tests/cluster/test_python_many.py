# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many launches from Python on real Slurm: a sweep to a table, a hundred jobs by few turns, functions, threads."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rankzero
from rankzero import playbook
from tests.cluster.launching import JOB_SECONDS, RESULT, UNTIL_GO, Site
from tests.cluster.test_command import Person
from tests.repository import CACHE, read, run

PROVEN = {"require": {"loss": {"lt": 2}}}
#: Loss and steps of an element.
SWEPT = """for s in 1 2 3; do echo "step $s/3 loss $1"; done; echo "{\\"loss\\": $1}" > result.json"""
#: How many launches one playbook makes; a hundred in `make test-all`.
MANY = [20, pytest.param(100, marks=pytest.mark.more)]


class Researcher(Person):
    """Works in Python, in a folder with an inventory. Each turn to the login node is noted."""

    def __init__(self, site: Site) -> None:
        enter = site.shell("noting", 'echo turn >> "$0.noted"\nexec "$LAB_SHELL" "$@"')
        self.noted = Path(f"{enter}.noted")
        self.noted.touch()
        super().__init__(site, ansible_shell_executable=enter)
        self.where: dict[str, Any] = {"inventory": str(site.folder / "inventory")}

    def turns(self) -> int:
        """The turns to the login node since the last call."""
        count = len(self.noted.read_text(encoding="utf-8").splitlines())
        self.noted.write_text("", encoding="utf-8")
        return count

    def runs(self, program: str, **files: str) -> str:
        """What a program of his own prints; a path of a file is its name."""
        for name, text in {"program": program, **files}.items():
            (self.site.folder / f"{name}.py").write_text(text, encoding="utf-8")
        done = self.starts(sys.executable, "program.py")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def researcher(site: Site, monkeypatch: pytest.MonkeyPatch) -> Researcher:
    monkeypatch.chdir(site.folder)
    return Researcher(site)


def block(page: str, start: str) -> str:
    """The block of Python on a page that begins with this line."""
    text = read(page)
    (found,) = [part for part in text.split("```python\n")[1:] if part.startswith(start)]
    return found.partition("```")[0]


def test_five_configurations_to_a_table_in_six_lines(researcher: Researcher) -> None:
    """As docs/command.md shows it."""
    site = researcher.site
    site.write(site.job(["sh", "-c", SWEPT, "p", "{lr}"], artifact={"require": {"loss": {}}}), "jobs/lr.yml")
    program = block("docs/command.md", "import rankzero\n\nlaunches = rankzero.sweep")
    assert len([line for line in program.splitlines() if line]) <= 6
    head, *rows = researcher.runs(program).splitlines()
    assert head.split() == ["lr", "standing", "seconds", "loss"]
    assert [row.split()[0] for row in rows[:5]] == ["0.3", "0.1", "0.03", "0.01", "0.003"]
    assert all(row.split()[1] == "succeeded" and row.split()[3] == row.split()[0] for row in rows[:5]), rows
    assert len(site.jobs()) == 5

    launches = rankzero.sweep("jobs/lr.yml", {"lr": [0.1, 0.5]}, **researcher.where)
    assert len(site.jobs()) == 6, "one of the two is there already"
    done, pending = launches.wait()
    assert done == launches and not pending
    assert [launch.result["loss"] for launch in launches] == [0.1, 0.5]
    assert launches[1].metrics()["loss"].values == [0.5, 0.5, 0.5]
    compared = rankzero.compare(launches)
    assert [row["scalars"]["loss"] for row in compared.rows] == [0.1, 0.5] and compared.time == "wall_time"
    researcher.turns()
    assert launches.wait().done == launches and researcher.turns() == 0, "what is known is not asked for again"
    (document,) = [json.loads(researcher.types("sweep", "jobs/lr.yml", "-s", 'sweep={"parameters":{"lr":["0.1"]}}',
                                               "--json").stdout)]  # fmt: skip
    (element,) = document["elements"]
    assert (element["submission"], element["scalars"], element["key"]) == ("unchanged", {"loss": 0.1}, launches[0].key)


@pytest.mark.parametrize("many", MANY)
def test_many_launches_are_one_playbook_and_few_turns(
    researcher: Researcher, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    site, started = researcher.site, []
    popen = subprocess.Popen
    monkeypatch.setattr(playbook.subprocess, "Popen", lambda *a, **o: started.append(a) or popen(*a, **o))
    jobs: list[Any] = [site.job(f"exit 3 # {n}", f"j{n}", artifact=PROVEN) for n in range(many - 1)]
    jobs.append(site.write(site.job(RESULT, "file", artifact=PROVEN), "jobs/file.yml"))
    launches = rankzero.submit_many(jobs, **researcher.where)
    assert len(started) == 1
    # The runtime and the code are brought once; without them each launch would be a turn.
    first = researcher.turns()
    assert first <= 12, first
    assert [launch.name for launch in launches] == [job["name"] for job in jobs[:-1]] + [
        json.loads(Path(jobs[-1]).read_text(encoding="utf-8"))["name"]
    ]
    assert len({launch.run_dir for launch in launches}) == many and len(site.jobs()) == many
    # Nothing is submitted twice, however often and from how many threads it is asked for.
    with ThreadPoolExecutor(2) as pool:
        again = list(pool.map(lambda _n: rankzero.submit_many(jobs[-3:], **researcher.where), range(2)))
    assert len(site.jobs()) >= many and {a.run_dir for a in again[0]} >= {launches[-1].run_dir}
    site.lab.head(["scancel", *site.left()], check=False)


def test_waits_for_the_first_and_for_all(researcher: Researcher) -> None:
    site = researcher.site
    jobs = [
        site.job(f"{UNTIL_GO}; {RESULT}", "slow", artifact=PROVEN),
        site.job(RESULT, "quick", artifact=PROVEN),
        site.job("exit 3", "bad"),
    ]
    slow, quick, bad = launches = rankzero.submit_many(jobs, **researcher.where)
    assert launches.table().splitlines()[0].split() == ["launch", "standing", "seconds"]
    done, pending = rankzero.wait(launches, first=2)
    assert done == [quick, bad] and pending == [slow]
    assert rankzero.wait(launches, first=1).done == [quick, bad]
    assert rankzero.wait([slow], timeout=1).pending == [slow]
    with pytest.raises(rankzero.Unfinished):
        list(rankzero.as_completed([slow], timeout=1))
    seen = []
    for launch in rankzero.as_completed(launches):
        seen.append(launch)
        if launch is bad:
            site.go({"run_dir": slow.run_dir})
    assert seen == [quick, bad, slow]
    assert [launch.seen and launch.seen.standing for launch in launches] == ["succeeded", "succeeded", "failed"]
    with pytest.raises(rankzero.LaunchFailed):
        _ = bad.result
    with pytest.raises(rankzero.Refused, match=r"no\.yml"):
        rankzero.submit_many([jobs[1], "jobs/no.yml"], **researcher.where)


#: The functions of the next test, as a user's file has them.
ADDING = """
import os, signal, time


def add(a, b):
    print("adding", a, b)
    return a + b


def pair(*, of):
    return {"pair": [of, of]}


def halved(numbers):
    raise ValueError(f"{[1 / number for number in numbers]}")


def sleep():
    time.sleep(600)


def chunk(numbers):
    print("rank", os.environ["RANK"], numbers[int(os.environ["RANK"])::int(os.environ["WORLD_SIZE"])])
    return int(os.environ["WORLD_SIZE"])


def counts():
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    print("it can be told", flush=True)
    start = int(open("saved").read()) if os.path.exists("saved") else 0
    while not told and not start:
        time.sleep(0.05)
    if told:
        open("saved", "w").write("7")
        raise SystemExit(0)
    return start
"""


def test_submitits_readme_line_by_line(researcher: Researcher) -> None:
    """Its example, in its order: the function, the executor's parameters, the job's id, the value, the logs; and what
    the table of docs/command.md says of its page of examples.
    """
    program = """
import rankzero
from adding import add, chunk, halved, pair, sleep

job = rankzero.submit(add, 5, 7, job={"resources": {"time": "00:05:00"}}, inventory="inventory")
print(job.job_id)

output = job.returned()
assert output == 12
assert any("adding" in path.read_text(errors="replace") for path in job.logs() if path.name.startswith("rank-"))
again = rankzero.submit(add, 5, 7, job={"resources": {"time": "00:05:00"}}, inventory="inventory")
assert (again.key, again.job_id, again.returned()) == (job.key, job.job_id, 12)
assert rankzero.submit(pair, of="é", inventory="inventory").returned() == {"pair": ["é", "é"]}

jobs = rankzero.submit_each(add, [5, 1, 2, 1], [7, 10, 20, 10], job={"sweep": {"parallel": 2}}, inventory="inventory")
sleeping = rankzero.submit(sleep, inventory="inventory")
assert rankzero.wait([*jobs, sleeping], first=3).pending == [sleeping]
assert [one.returned() for one in jobs] == [12, 11, 22, 11] and jobs[1] is jobs[3]
assert jobs[0].run_dir == job.run_dir, "what was added is not added again"
assert len({one.job_id.partition("_")[0] for one in jobs[1:]}) == 1, "one array"
sleeping.cancel()
assert rankzero.wait([sleeping]).done[0].seen.slurm_state == "CANCELLED", sleeping.seen

tasks = rankzero.submit(chunk, [1, 2, 3], job={"launcher": {"ranks_per_node": 2}}, nodes=2, inventory="inventory")
assert tasks.returned() == 4
logs = {path.name: path.read_text() for path in tasks.logs()}
assert "rank 3 []" in logs["rank-0003.log"] and "rank 1 [2]" in logs["rank-0001.log"]

wrong = rankzero.submit(halved, [2, 0], inventory="inventory")
try:
    wrong.returned()
except rankzero.LaunchFailed as error:
    print(str(error).replace("\\n", " "))
print(wrong.diagnosis().what)
"""
    job_id, error, what = researcher.runs(program, adding=ADDING).splitlines()
    assert job_id in researcher.site.jobs("add.", "pair.") and "ZeroDivisionError" in what
    line = ADDING.splitlines().index(next(one for one in ADDING.splitlines() if "1 / number" in one)) + 1
    assert f"adding.py:{line}" in error and "ZeroDivisionError" in error, error


# The line of the error is in what submitit's readme does, above.
@pytest.mark.more
def test_a_failed_function_shows_its_whole_traceback(researcher: Researcher) -> None:
    program = """
import rankzero
from adding import halved

try:
    rankzero.submit(halved, [2, 0], inventory="inventory").returned()
except rankzero.LaunchFailed as error:
    assert error.traceback in str(error), error
    print(error.traceback)
"""
    first, *frames, last = researcher.runs(program, adding=ADDING).splitlines()
    assert (first, last) == ("Traceback (most recent call last):", "ZeroDivisionError: division by zero")
    assert any("in halved" in frame for frame in frames), frames


def test_a_function_that_is_told_to_end_goes_on_from_what_it_saved(
    researcher: Researcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = researcher.site
    (site.folder / f"counting_{site.token}.py").write_text(ADDING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site.folder))
    counting = importlib.import_module(f"counting_{site.token}")
    job = {"checkpoint": {"signal_before_end": 60, "requeue": True}, "resources": {"time": "00:10:00"}}
    launch = rankzero.submit(counting.counts, job=job, **researcher.where)
    started = site.wait_for(site.host_path(launch.run_dir) / "logs" / "0" / "rank-0000.log")
    site.lab.wait_until(lambda: "it can be told" in started.read_text(), JOB_SECONDS, "the function handles the signal")
    # What Slurm does before the time limit.
    site.lab.head(["scancel", "--batch", "--signal=USR2", str(launch.job_id)])
    assert launch.returned() == 7
    assert [attempt.attempt for attempt in launch.attempts] == [0, 1]


NOTEBOOK = """
import json, os, sys
sys.path.append({installed!r})
os.environ["PYTHONPATH"] += os.pathsep + {installed!r}
os.environ["JUPYTER_PATH"] = {installed!r} + "/share/jupyter"
for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
    os.environ[name] = os.path.abspath("jupyter")
import nbformat, nbclient

class Client(nbclient.NotebookClient):
    shown = []
    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"].endswith("display_data"):
            self.shown.append(msg["content"]["data"].get("text/html", ""))
        return super().process_message(msg, cell, cell_index)

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(open("cell.py").read())])
client = Client(notebook, timeout=200)
client.execute()
print(json.dumps([client.shown, [output["data"].get("text/html", "") for output in notebook.cells[0].outputs]]))
"""


@pytest.mark.more
def test_a_notebook_shows_the_launches_as_they_end(researcher: Researcher) -> None:
    """The cell of docs/command.md in a real kernel."""
    site, installed = researcher.site, CACHE / "notebook"
    if not installed.exists():
        run("uv", "pip", "install", "--python", sys.executable, "--target", installed, "nbclient", "ipykernel")
    site.write(site.job(["sh", "-c", SWEPT, "p", "{lr}"], artifact={"require": {"loss": {}}}), "jobs/lr.yml")
    cell = block("docs/command.md", "import rankzero\nfrom IPython.display")
    shown, left = json.loads(researcher.runs(NOTEBOOK.format(installed=str(installed)), cell=cell).splitlines()[-1])
    assert len(shown) >= 2 and left == shown[-1:], "one table, which changes"
    assert (shown[0].count("succeeded"), shown[-1].count("succeeded")) == (0, 5), shown
    assert "<th>loss</th>" in shown[-1] and "<td>0.003</td>" in shown[-1]


# Launches at the same moment: test_launch_once.py.
@pytest.mark.more
def test_threads_launch_the_same_job_once(researcher: Researcher) -> None:
    """Two threads submit the same job, and two others, at once: each call has its own playbook and its own lines."""
    site = researcher.site
    jobs = [site.job(RESULT, name, artifact=PROVEN) for name in ("same", "same", "one", "two")]
    lines: list[list[str]] = [[] for _job in jobs]
    with ThreadPoolExecutor(len(jobs)) as pool:
        ran = list(pool.map(lambda n: rankzero.run(jobs[n], listener=lines[n].append, **researcher.where), range(4)))
        ended = list(pool.map(lambda launch: launch.wait(), ran))
    assert ran[0].run_dir == ran[1].run_dir and len(site.jobs()) == 3
    assert all(launch.result["loss"] == 1.5 for launch in ended)
    for launch, own in zip(ran, lines):
        others = {other.key[:8] for other in ran} - {launch.key[:8]}
        assert any(launch.key[:8] in line for line in own) and not any(key in line for key in others for line in own)
