# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dataset on a cluster: staged by the role, read by ranks in place and mounted on each node, made into tokens."""

from __future__ import annotations

import array
import json
from pathlib import Path
from typing import Any

from tests.cluster.launching import Played, Site, read_json

TEXTS = {"a.txt": "hello slurm\n", "sub/b.jsonl": '{"body": "two"}\n{"body": "three"}\n'}
#: What kind of file system each of the two is on, and what is in it.
SHOW = (
    'for place in "$RANKZERO_DATA_PLACE" "$RANKZERO_DATA_MOUNT"; do '
    'echo "$(stat -f -c %T "$place") $(cat "$place/a.txt")"; done > said.$RANK'
)


def texts(site: Site) -> Path:
    folder = site.folder / "texts"
    for name, content in TEXTS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def role(site: Site, *arguments: str, **variables: Any) -> Played:
    """One run of the role on the lab's head."""
    play = site.folder / "dataset.yml"
    given = {"role": "rankzero.slurm.dataset", "dataset_name": f"texts-{site.token}", **variables}
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "roles": [given]}]))
    return site.play(None, *arguments, playbook=str(play), launch_wait=True)


def staged(played: Played) -> dict[str, Any]:
    assert played.rc == 0, played.output
    return played.results("rankzero.slurm.dataset")[0]


def test_ranks_read_it_in_place_and_from_one_file_mounted_on_each_node(site: Site) -> None:
    source = str(texts(site))
    dest = f"{site.state_root}/data/texts"
    made = staged(role(site, dataset_src=source, dataset_dest=dest, dataset_pack=True))
    assert made["changed"] and (site.host_path(dest).parent / "texts").is_symlink() and made["ref"]["path"] == dest
    again = role(site, dataset_src=source, dataset_dest=dest, dataset_pack=True)
    assert "changed=0" in again.output

    folder = made["dataset"]["folder"]
    data = {"place": made["ref"], "mount": {"path": folder, "packed": True}}
    launch = site.launch(site.job(SHOW, resources={"nodes": 2, "time": "00:10:00"}, data=data))
    assert site.outcome(launch)["success"], site.run_dir(launch)
    site.ended(launch["job_id"])
    for rank in range(2):
        said = (site.run_dir(launch) / "work" / f"said.{rank}").read_text().splitlines()
        assert [line.partition(" ")[2] for line in said] == ["hello slurm"] * 2
        place, mount = (line.partition(" ")[0] for line in said)
        assert mount in ("fuseblk", "fuse", "squashfs") and place != mount, said
    for node in site.lab.nodes[:2]:
        assert "squash" not in site.lab.node(node, ["cat", "/proc/mounts"]).stdout


def test_a_text_becomes_tokens_once(site: Site) -> None:
    wanted: dict[str, Any] = {
        "dataset_src": str(texts(site)),
        "dataset_tokens": f"tokens-{site.token}",
        "dataset_tokens_shard": 10,
        "dataset_tokens_field": "body",
        "dataset_tokens_tokenizer": "bytes",
        "dataset_tokens_job": {"nodes": 2, "time": "00:10:00"},
    }
    foretold = role(site, "--check", **wanted)
    assert foretold.rc == 0, foretold.output
    played = role(site, **wanted)
    assert played.rc == 0, played.output
    tokens = played.results("rankzero.slurm.dataset")[1]["dataset"]["folder"]
    folder = site.host_path(tokens)
    described = read_json(folder / "tokens.json")
    found = array.array("H")
    for shard in described["shards"]:
        found.frombytes((folder / shard["file"]).read_bytes())
    assert described["tokens"] == len(found) == len("hello slurm\ntwothree") + 3
    assert sorted(bytes(one).decode() for one in _split(found.tolist(), described["end"])) == [
        "hello slurm\n",
        "three",
        "two",
    ]
    again = role(site, **wanted)
    assert again.rc == 0 and again.launch()["submission"] == "unchanged", again.output
    assert "changed=0" in again.output


def _split(numbers: list[int], end: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for number in numbers:
        if number == end:
            parts.append([])
        else:
            parts[-1].append(number)
    return parts[:-1]


def test_a_dataset_that_was_not_staged_is_an_error_before_anything_is_queued(site: Site) -> None:
    data = {"text": {"path": f"{site.cluster['store_root']}/datasets/by-name/none", "digest": "0" * 64}}
    job = site.job("true", data=data)
    assert "stage the dataset first (role or module dataset)" in site.play(job).refused()
    assert site.jobs() == {}
