# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers about launches, read by Prometheus's own parsers; the dashboard asks for no others."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families_of
from prometheus_client.parser import text_string_to_metric_families as prometheus

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.monitoring import openmetrics
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import NOTIFY_SPEC
from ansible_collections.rankzero.slurm.plugins.modules import job_notify
from tests.repository import ROOT
from tests.unit.run.test_launches import KEY, NOW, SUBMITTED, make_run, outcome, queue, started
from tests.writers import CUDA_OOM, write_diagnosis

HOUR = 3600.0


def launch(standing: str, **more: Any) -> dict[str, Any]:
    """A launch as job_info returns it: submitted at 100 s, on two nodes from 160 s to 260 s before the end."""
    ended = standing in ("succeeded", "failed")
    attempt = {"attempt": 0, "started_at": NOW - 110, "finished_at": NOW - 10 if ended else None, "nodes": ["a", "b"]}
    begun = standing != "waiting"
    return {
        "run_dir": f"/runs/{standing}", "completed": ended, "success": standing == "succeeded", "active": not ended,
        "standing": standing, "attempt": 0,
        "attempts": [attempt] if begun else [], "nodes": ["a", "b"] if begun else [],
        "started_at": NOW - 110 if begun else None, "finished_at": attempt["finished_at"],
        "journal": [{"event": "submitted", "time": NOW - 170}], **more,
    }  # fmt: skip


def samples(text: str, parse: Any = families_of) -> dict[tuple[str, ...], float]:
    """(name, values of the labels besides user) -> value."""
    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "user")): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def measured(*launches: dict[str, Any], excluded: Any = None, ended: Any = None) -> str:
    return openmetrics.text(openmetrics.numbers(launches, excluded or {}, ended or {}, 24 * HOUR, NOW), "me")


def test_what_is_counted() -> None:
    again = {"attempt": 1, "started_at": NOW - 60, "finished_at": NOW - 10, "nodes": ["a"]}
    restarted = launch("succeeded", attempt=1, run_dir="/runs/again")
    restarted["attempts"] = [*restarted["attempts"], again]
    old = launch("failed", finished_at=NOW - 25 * HOUR, attempts=[], started_at=NOW - 26 * HOUR)
    text = measured(
        launch("waiting"), launch("running"), launch("succeeded"), restarted, launch("failed"), old,
        launch("failed", run_dir="/runs/oom"),
        excluded={"node07": NOW + 60},
        ended={
            "/runs/succeeded": openmetrics.Ended({"not known": 300.0}),
            "/runs/again": openmetrics.Ended({"steps": 250.0, "lost": 150.0}),
            "/runs/failed": openmetrics.Ended({"steps": 100.0, "stalls": 100.0}),
            "/runs/oom": openmetrics.Ended({}, "cuda_oom"),
            "/elsewhere": openmetrics.Ended({"steps": 1e6}, "nccl"),
        },
    )  # fmt: skip
    found = samples(text)
    states = {key[1]: value for key, value in found.items() if key[0] == "rankzero_launches"}
    assert states == {
        "waiting": 1,
        "running": 1,
        "succeeded": 2,
        "failed": 2,
        "withdrawn": 0,
        "unsubmitted": 0,
        "unknown": 0,
        "untrusted": 0,
    }
    use = {key[1]: value for key, value in found.items() if key[0] == "rankzero_node_seconds"}
    assert set(use) == set(openmetrics.USES)
    assert {name: value for name, value in use.items() if value} == {
        "steps": 250, "lost": 150, "not known": 300, "failed": 200,
    }  # fmt: skip
    # A failed launch has no use, whatever its steps; a launch whose log tells nothing counts neither way.
    assert found[("rankzero_goodput_ratio",)] == pytest.approx(250 / (250 + 150 + 200))
    assert found[("rankzero_failures", "cuda_oom")] == found[("rankzero_failures", "undiagnosed")] == 1
    assert found[("rankzero_queue_seconds", "median")] == found[("rankzero_queue_seconds", "max")] == pytest.approx(60)
    assert found[("rankzero_queue_waiting_seconds",)] == pytest.approx(170)
    assert (found[("rankzero_nodes_in_use",)], found[("rankzero_restarts",)], found[("rankzero_nodes_excluded",)]) == (
        2,
        1,
        1,
    )
    assert found[("rankzero_node_excluded_until_timestamp_seconds", "node07")] == pytest.approx(NOW + 60)
    assert samples(text, prometheus) == found, "node-exporter reads the older format"
    assert all(sample.labels["user"] == "me" for family in families_of(text) for sample in family.samples)


def test_without_launches_there_are_zeros_and_no_ratio() -> None:
    found = samples(measured())
    assert found[("rankzero_launches", "running")] == 0 and ("rankzero_goodput_ratio",) not in found


def test_hostile_labels_stay_labels() -> None:
    family = 'a"} 1\nrankzero_launches{standing="\\'
    text = measured(launch("failed"), ended={"/runs/failed": openmetrics.Ended(family=family)})
    (key,) = [key for key in samples(text) if key[0] == "rankzero_failures"]
    assert key[1] == family.replace("\n", "?") and samples(text, prometheus) == samples(text)


def job_notify_on(
    monkeypatch: pytest.MonkeyPatch, root: Path, check_mode: bool = False, **options: Any
) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in NOTIFY_SPEC.items()}
    ended = queue("FAILED", StartTime=str(int(NOW) - 91), EndTime=str(int(NOW) - 9))
    monkeypatch.setattr(job_notify, "Slurm", ended.slurm)
    params = {**defaults, "state_root": str(root), **options}
    return job_notify.logic(SimpleNamespace(params=params, check_mode=check_mode))


def test_the_module_writes_the_file_at_once_for_everyone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, file = tmp_path / "state", tmp_path / "rankzero.prom"
    run = make_run(root, *SUBMITTED, claim="1 lab 7\n", started_json=started(), outcome_json=outcome(False))
    (run / "logs" / "0").mkdir(exist_ok=True)
    (run / "logs" / "0" / "rank-0000.log").write_text(CUDA_OOM, encoding="utf-8")
    write_diagnosis(queue("FAILED").slurm(), run)
    node = {"node": "node07", "reason": "x", "job_id": "7", "time": NOW - 5, "expires": NOW + 900}
    place = root / "clusters" / "lab" / "nodes"
    place.mkdir(parents=True)
    (place / "node07.json").write_text(json.dumps(node), encoding="utf-8")
    shown = job_notify_on(monkeypatch, root, check_mode=True, metrics_file=str(file))
    assert not file.exists() and not shown["changed"]
    old = os.umask(0o077)
    try:
        assert job_notify_on(monkeypatch, root, metrics_file=str(file), metrics_hours=1)["changed"] is True
    finally:
        os.umask(old)
    found = samples(file.read_text(encoding="utf-8"))
    assert found[("rankzero_failures", "cuda_oom")] == 1 and found[("rankzero_launches", "failed")] == 1
    assert found[("rankzero_node_excluded_until_timestamp_seconds", "node07")] == pytest.approx(NOW + 900)
    assert found[("rankzero_window_seconds",)] == HOUR and file.stat().st_mode & 0o777 == 0o644
    assert sorted(os.listdir(tmp_path)) == ["rankzero.prom", "state"]
    assert set(samples(shown["metrics"])) == set(found) and KEY not in file.read_text(encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"metrics_file: .* cannot be written"):
        job_notify_on(monkeypatch, root, metrics_file=str(tmp_path / "nowhere" / "x.prom"))


def dashboard() -> dict[str, Any]:
    document = json.loads((ROOT / "examples" / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def test_the_dashboard_asks_only_for_what_is_written() -> None:
    names = {gauge.name for gauge in openmetrics.GAUGES}
    text = measured(
        launch("succeeded"), launch("failed"), excluded={"node07": NOW + 60},
        ended={"/runs/succeeded": openmetrics.Ended({"steps": 1.0})},
    )  # fmt: skip
    labels: dict[str, set[str]] = {}
    for family in families_of(text):
        labels[family.name] = {label for sample in family.samples for label in sample.labels}
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    asked = set(re.findall(r"\brankzero_\w+", " ".join(expressions)))
    assert asked <= names and len(expressions) > 10
    assert names - asked == {"rankzero_window_seconds"}, "every other number is shown"
    for expression in expressions:
        grouped = set(re.findall(r"by \((\w+)\)", expression)) | set(re.findall(r'(\w+)!?=~?"', expression))
        assert all(grouped <= labels[name] for name in re.findall(r"rankzero_\w+", expression)), expression


def test_the_dashboard_is_one_of_grafanas_schema() -> None:
    """Grafana's own package, which is generated from its schema, reads it and drops what the schema does not have."""
    plugins = pytest.importorskip("grafana_foundation_sdk.cog.plugins", reason="its package needs Python 3.11")
    encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder")
    models = importlib.import_module("grafana_foundation_sdk.models.dashboard")
    plugins.register_default_plugins()

    def dropped(document: dict[str, Any]) -> list[str]:
        read = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(document)))
        return list(missing(document, read))

    assert dropped(dashboard()) == []
    wrong = dashboard()
    wrong["panels"][0]["fieldConfig"]["defaults"]["colour"] = {}
    assert dropped(wrong) == ["panels.0.fieldConfig.defaults.colour"]


def missing(given: Any, read: Any, place: str = "") -> Iterator[str]:
    """The places of values that are not, or not the same, in what was read."""
    if isinstance(given, dict) and isinstance(read, dict):
        for name, value in given.items():
            yield from missing(value, read.get(name), f"{place}.{name}".lstrip("."))
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for index, (value, other) in enumerate(zip(given, read)):
            yield from missing(value, other, f"{place}.{index}")
    elif given != read:
        yield place


def test_the_dashboard_has_the_structure_that_grafana_reads() -> None:
    made = dashboard()
    assert made["uid"] and made["title"] and made["schemaVersion"] >= 36
    variables = {each["name"]: each for each in made["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and set(variables) == {"datasource", "user"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(made)))
    assert used == set(variables)
    taken: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] in {"stat", "timeseries", "bargauge", "table"} and panel["targets"] and panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    ids = [panel["id"] for panel in made["panels"]]
    assert len(set(ids)) == len(ids)
