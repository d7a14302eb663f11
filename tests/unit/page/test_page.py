# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page of a launch contains, how it is escaped, and what CI systems are told."""

from __future__ import annotations

import html.parser
import json
import os
import pwd
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page import Page
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page import annotations as ci_annotations
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page import render
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.markdown import markdown
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.render import (
    MOST_DATA,
    default_path,
    environments,
    measured,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.render import html as page
from tests.unit.page.runs import BEGAN, found, make_launch, stamp
from tests.unit.run.test_launches import KEY, SUBMITTED, make_run, outcome, queue, started
from tests.writers import CUDA_OOM, write_diagnosis

OTHER, FAILED = "5" * 16, "f" * 16
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Elements(html.parser.HTMLParser):
    """The tags of a page with their attributes, and the text of its data element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_data = dict(attrs).get("id") == "data"

    def handle_data(self, data: str) -> None:
        self.data += data if self._in_data else ""

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("state")
    make_launch(root)
    make_launch(root, key=OTHER, ranks=8)
    run = make_launch(root, key=FAILED, name="bad", success=False)
    with (run / "logs" / "1" / "rank-0007.log").open("a", encoding="utf-8") as log:
        log.write(CUDA_OOM.replace("20.00 GiB", f"20.00 GiB. {HOSTILE}"))
    write_diagnosis(queue("COMPLETED").slurm(), run)
    return root


def test_the_page_of_a_launch(root: Path) -> None:
    seen = found(root, f"gpt/{KEY}")
    (launch,) = seen["launches"]
    assert seen["kind"] == "launch" and launch["success"] and len(launch["attempts"]) == 2
    loss = launch["metrics"]["loss"]
    assert loss["count"] == 350 and loss["attempts"] == [0] * 200 + [1] * 150 and loss["steps"][200] == 150
    assert {"learning rate", "grad norm", "step_seconds"} <= set(launch["metrics"])
    kinds = [phase["kind"] for phase in launch["timeline"]]
    assert kinds == [
        "queued", "set-up", "preflight", "staging", "preflight", "start-up", "training", "lost", "waits", "start-up",
        "training", "after the last step",
    ]  # fmt: skip
    assert [(mark["kind"], mark["attempt"]) for mark in launch["marks"]] == [
        ("first step", 0), ("requeue", 1), ("first step", 1), ("artifact", 1),
    ]  # fmt: skip
    assert all(phase["ended"] >= phase["began"] for phase in launch["timeline"])
    held = sum((phase["ended"] - phase["began"]) * phase["node_count"] for phase in launch["timeline"])
    assert launch["ledger"]["node_seconds"] == pytest.approx(held, abs=0.1)
    parts = {row["part"]: row for row in launch["ledger"]["parts"]}
    assert sum(row["share"] or 0 for row in parts.values()) == pytest.approx(1)
    # The second attempt repeated 50 steps of a second each on two nodes; the first one ended 10 seconds after its last.
    assert parts["lost"]["node_seconds"] == pytest.approx(2 * (50 + 10), abs=2) and parts["stalls"]["node_seconds"] == 0
    assert parts["checkpoints"]["share"] is None and launch["ledger"]["queue_seconds"] == pytest.approx(
        120 + 160, abs=0.1
    )
    assert "What the hours went to" in page(seen)
    assert [rank["rank"] for rank in launch["ranks"]] == list(range(16))
    assert launch["ranks"][15]["seconds"][2] > 1.3 > launch["ranks"][3]["seconds"][2]
    assert [found_map["kind"] for found_map in launch["heat_maps"]] == ["cpu", "memory", "gpu", "gpu_memory", "power"]
    assert [row["node"] for row in launch["heat_maps"][0]["rows"]] == ["node01", "node02"]
    text = page(seen)
    assert len(text) < 200_000
    for shown in ("NCCL_DEBUG", "errors are reported", "1234567890abcdef", "node02  8", "preempted", "train.py"):
        assert shown in text
    assert default_path(Page.of(seen)) == f"runs/gpt/{KEY}/1/report.html"


def test_the_page_loads_nothing_and_runs_only_its_own_scripts(root: Path) -> None:
    for text in (page(found(root, f"gpt/{KEY}")), page(found(root))):
        tags = Elements(text).tags
        policy = next(attributes["content"] or "" for tag, attributes in tags if "http-equiv" in attributes)
        assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
        names = {name for _tag, attributes in tags for name in attributes}
        assert "src" not in names and not [name for name in names if name.startswith("on")]
        assert {tag for tag, attributes in tags if "href" in attributes} <= {"a"}
        assert not [attributes for _tag, attributes in tags if "style" in attributes]
        assert [attributes for tag, attributes in tags if tag == "script"][1:] == [{}, {}]


def test_hostile_names_and_lines_are_text(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    spec = {"env": {"NAME": "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz"}}
    run = make_launch(tmp_path / "state", ranks=2, steps=20, message=HOSTILE, manifest={"spec": spec})
    rows = [{"step": step, HOSTILE: 1.0, "loss": float("nan")} for step in range(9)]
    (run / "work").mkdir(exist_ok=True)
    (run / "work" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "preflight" / "0" / "table").write_text(f"node01 {HOSTILE} HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\n")
    seen = found(tmp_path / "state", "gpt")
    assert HOSTILE in seen["launches"][0]["metrics"]
    text = page(seen)
    assert "<script>alert" not in text and "<img" not in text and "hf_abcdefghijk" not in text
    parsed = Elements(text)
    assert [tag for tag, _attributes in parsed.tags].count("script") == 3
    assert HOSTILE in json.loads(parsed.data)["launches"][0]["metrics"]
    assert any("9 of" in note and "not finite" in note for note in seen["launches"][0]["notes"])
    assert not re.search(r"(?<!\\)<", markdown(Page.of(seen))) and "\\<script\\>" in markdown(Page.of(seen))


def test_marks_of_text_direction_are_visible(tmp_path: Path) -> None:
    """A reversed path, an isolated word, and an escape for a terminal, in a message, a metric's name and a table."""
    (tmp_path / "state").mkdir()
    marks = "".join(map(chr, (0x202E, 0x2066, 0x200F, 0x061C, 0x1B)))
    run = make_launch(tmp_path / "state", ranks=2, steps=20, message=f"gpj{marks}.exe")
    (run / "work").mkdir(exist_ok=True)
    (run / "work" / "metrics.jsonl").write_text(
        "".join(json.dumps({"step": s, f"a{marks}": 1.0}) + "\n" for s in range(9))
    )
    (run / "preflight" / "0" / "table").write_text(f"node01 {marks}\n")
    seen = found(tmp_path / "state", "gpt")
    for text in (page(seen), Elements(page(seen)).data, markdown(Page.of(seen))):
        # As HTML, and as what the page's script makes of its data.
        for shown in (text, json.dumps(json.loads(text), ensure_ascii=False) if text.startswith("{") else ""):
            assert not any(mark in shown for mark in marks)
    assert "\\u202e" in page(seen)


def test_where_the_launch_is_found_in_its_trackers(tmp_path: Path) -> None:
    run = make_launch(tmp_path, ranks=1, steps=9)
    link, hostile = "https://mlflow.example.org:8443/x/#/experiments/1/runs/ab12", 'https://a"onclick="x'
    rows: list[object] = [{"tracker": "mlflow", "run": "ab12", "place": link}, 7]
    for number, place in enumerate(("javascript:alert(1)", "https://me:pw@host/", hostile, "/runs/tensorboard", None)):
        rows.append({"tracker": f"t{number}", "run": HOSTILE, "place": place})
    (run / "trackers.json").write_text(json.dumps(rows))
    seen = found(tmp_path, "gpt")
    text = page(seen)
    links = [attributes for tag, attributes in Elements(text).tags if tag == "a"]
    assert links == [{"href": link, "rel": "noopener noreferrer", "target": "_blank"}]
    assert "(/runs/tensorboard)" in text and "<script>alert" not in text
    assert "mlflow.example.org:8443/x/" in markdown(Page.of(seen))
    for broken in ("{", "7", "[" * 100_000):
        (run / "trackers.json").write_text(broken)
        assert found(tmp_path, "gpt")["launches"][0]["trackers"] == []


def test_launches_side_by_side(root: Path) -> None:
    seen = found(root, f"gpt/{KEY}", f"gpt/{OTHER}", f"gpt/{KEY}/1")
    assert seen["kind"] == "compare" and [launch["key"] for launch in seen["launches"]] == [KEY, OTHER]
    assert [row["ranks"] for row in seen["comparison"]] == [16, 8]
    text = page(seen)
    assert "resources.nodes" in text and "Differences of the job specs" in text
    assert "speed\\-up" in markdown(Page.of(seen)) or "speed-up" in markdown(Page.of(seen))
    failed = found(root, f"gpt/{KEY}", "bad")
    assert failed["comparison"] == [] and "only launches that have succeeded" in page(failed)


def test_environments_and_results_side_by_side(tmp_path: Path) -> None:
    """3 against 5 nodes: time an epoch, speed-up and efficiency, what the launches were made of, and what differs."""
    made = {"loss": 1.5, "seconds_per_epoch": 30.0}
    for key, ranks, seconds, variable in ((KEY, 24, 30.0, "WARN"), (OTHER, 40, 20.0, "INFO")):
        variables = [
            {"name": "NCCL_DEBUG", "value": variable, "reason": "r", "set_by": "policy"},
            {"name": "OMP_NUM_THREADS", "value": "1", "reason": "r", "set_by": "policy"},
            {"name": "WANDB_RUN_ID", "value": f"gpt-{key}-1", "reason": "r", "set_by": "job"},
        ]
        make_launch(
            tmp_path, key=key, ranks=ranks, steps=30, values={**made, "seconds_per_epoch": seconds},
            manifest={"variables": variables, "refs": [{"kind": "environment", "key": key * 2}]},
        )  # fmt: skip
    seen = found(tmp_path, f"gpt/{KEY}", f"gpt/{OTHER}")
    first, second = seen["comparison"]
    assert seen["time"] == "seconds_per_epoch" and (first["nodes"], second["nodes"]) == (3, 5)
    assert (second["speed_up"], second["efficiency"]) == (pytest.approx(1.5), pytest.approx(0.9))
    rows = {name: (values, differ) for name, values, differ in environments(Page.of(seen).launches)}
    assert rows["environment"] == ([KEY * 2, OTHER * 2], True) and rows["NCCL_DEBUG"] == (["WARN", "INFO"], True)
    assert rows["collection"] == (["0.1.0", "0.1.0"], False)
    assert not {"OMP_NUM_THREADS", "WANDB_RUN_ID", "run directory", "key"} & set(rows)
    results = dict(measured(Page.of(seen).launches))
    assert results["seconds_per_epoch"] == ["30.0", "20.0"] and len(results["median seconds of a step"]) == 2
    text = page(seen)
    assert "Environments" in text and text.count('class="differs"') == 2 and "1.50" in text and "90 %" in text
    changed = {**second, "code_changes": ["train.py", "-    rate = '<b>'", "+    rate = 0.1"]}
    text = page({**seen, "comparison": [first, changed]})
    assert "Changed code, " in text and "rate = &#39;&lt;b&gt;&#39;" in text and "Changed code" not in page(seen)
    bare = {**seen, "launches": [{**launch, "metrics": {}, "values": {}} for launch in seen["launches"]]}
    assert measured(Page.of(bare).launches) == [] and "<h2>Results" not in page(bare)


def test_a_list_of_launches(root: Path) -> None:
    seen = found(root, limit=0)
    assert found(root, limit=1)["omitted"] == 2
    assert seen["kind"] == "index" and {launch["name"] for launch in seen["launches"]} == {"gpt", "bad"}
    assert page(seen).count('class="badge good"') == 2 and page(seen).count('class="badge bad"') == 1
    assert default_path(Page.of(seen)) == "runs/report.html"


def test_a_list_has_user_and_result_and_links_to_the_pages_that_are_there(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = found(root, limit=0)
    user = pwd.getpwuid(os.getuid()).pw_name
    assert {launch["user"] for launch in seen["launches"]} == {user}
    (first, *_others) = [launch for launch in seen["launches"] if launch["success"]]
    own = Path("runs", first["name"], first["key"], str(first["generation"]), "report.html")
    own.parent.mkdir(parents=True)
    assert "<a href" not in page(seen, str(tmp_path / "runs" / "report.html"))
    own.write_text("its page")
    text = page(seen, str(tmp_path / "runs" / "report.html"))
    assert re.findall(r'<a href="([^"]*)"', text) == [str(own.relative_to("runs"))]
    ((name, value),) = first["values"].items()
    assert f"<td>{user}</td>" in text and f'<td data-sort="{value}">{name} {value}</td>' in text


def test_a_launch_without_steps_one_that_runs_and_one_of_an_old_release(tmp_path: Path) -> None:
    make_run(tmp_path, *SUBMITTED, name="old", claim="1 lab 7\n", outcome_json=outcome())
    make_run(tmp_path, *SUBMITTED, name="now", claim="1 lab 7\n", started_json=started(world_size=2))
    make_run(tmp_path, name="new", key=OTHER)
    for name in ("old", "now", "new"):
        text = page(found(tmp_path, name))
        assert "The logs show no steps" in text and len(text) < 120_000
    assert found(tmp_path, "now")["launches"][0]["timeline"][-1]["kind"] == "runs"


def test_a_clock_that_is_hours_apart_is_named_and_corrected(tmp_path: Path) -> None:
    """The time stamps of the log do not fit the job's times: the page shows the job's, and says so."""
    run = make_launch(tmp_path, ranks=1, steps=30)
    for log in run.glob("logs/*/rank-0000.log"):
        stamps = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\]", re.MULTILINE)
        later = lambda match: f"[{stamp(datetime.fromisoformat(match[1]).timestamp() + 7200)}]"  # noqa: E731
        log.write_text(stamps.sub(later, log.read_text()))
    (launch,) = found(tmp_path, "gpt")["launches"]
    assert re.search(r"clocks of the log and of the job are \d+ s apart: corrected", "\n".join(launch["notes"]))
    times = [time for time in launch["metrics"]["loss"]["times"] if time is not None]
    assert times[0] >= BEGAN - 1 and times[-1] <= launch["timeline"][-1]["ended"] + 120
    assert all(phase["ended"] >= phase["began"] for phase in launch["timeline"])


def test_which_launches_are_refused(root: Path) -> None:
    with pytest.raises(RankzeroError, match=r"sweep and launches: .* only one"):
        found(root, "gpt", sweep="gpt")
    with pytest.raises(RankzeroError, match="names no launch"):
        found(root, "-x")
    with pytest.raises(RankzeroError, match="no sweep gpt is recorded"):
        found(root, sweep="gpt")


def test_too_much_data_loses_the_last_metrics(root: Path) -> None:
    seen = found(root, f"gpt/{KEY}")
    metrics: dict[str, Any] = seen["launches"][0]["metrics"]
    for number in range(60):
        metrics[f"metric{number}"] = {**metrics["loss"], "values": [1.23456789] * 1500, "steps": list(range(1500))}
    text = page(seen)
    assert MOST_DATA < len(text) < MOST_DATA + 200_000
    assert "metric59" not in Elements(text).data and '"loss"' in Elements(text).data


def test_the_summary_and_the_annotations(root: Path, tmp_path: Path) -> None:
    seen = found(root, "bad")
    text = markdown(Page.of(seen))
    assert text.startswith("## bad ffffffff/1\n") and "### Cause" in text
    for place in (text, page(seen)):
        assert "memory is full" in place and "CUDA out of memory" in place and "rank 7" in place
    written = tmp_path / "summary.md"
    for _twice in range(2):
        ci_annotations.append_summary(text, {ci_annotations.STEP_SUMMARY: str(written)})
    assert written.read_text() == text
    with pytest.raises(RankzeroError, match="annotations: GITHUB_STEP_SUMMARY="):
        ci_annotations.append_summary(text, {ci_annotations.STEP_SUMMARY: str(tmp_path)})
    (line,) = ci_annotations.annotation_lines(Page.of(seen))
    said = "::error title=bad/ffffffff/1::the program ended with exit code 3; the GPU's memory is full"
    assert re.match(re.escape(said) + ".*; where rank 7", line)
    (row,) = json.loads(ci_annotations.code_quality(Page.of(seen)))
    assert row["severity"] == "major" and row["location"]["lines"] == {"begin": 1} and len(row["fingerprint"]) == 64
    assert ci_annotations.annotation_lines(Page.of(found(root, f"gpt/{KEY}"))) == []
    assert [ci_annotations.platform({name: "true"}) for name in ("GITHUB_ACTIONS", "GITLAB_CI", "CI")] == [
        "github", "gitlab", "none",
    ]  # fmt: skip


def test_the_best_element_of_a_sweep_has_not_the_colour_of_failed() -> None:
    """The page's program draws charts; what has failed is a mark of a table, which the style sheet colours."""
    files = Path(render.__file__).parent / "files"
    assert "--bad" in (files / "page.css").read_text(encoding="utf-8")
    program = (files / "page.js").read_text(encoding="utf-8")
    assert 'color("--bad")' not in program and 'best.number === row.number ? color("--good")' in program
