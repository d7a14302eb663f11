# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hub_cache copies what the cache in a trusted store (option `stores`) has, and passes over what others could write."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import HUB_CACHE
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.ensure import ensure_cache

FILES = {"config.json": "{}", "tokenizer.json": "tokens"}
# The hub is asked with this Python: what is not in the store fails.
NO_HUB = "/no/such/python"


class Site:
    """A platform team's store with a model in its cache, and a user's own HF_HOME."""

    def __init__(self, root: Path) -> None:
        root.chmod(0o755)
        self.platform, self.home, self.src = root / "platform", root / "home", root / "src"
        self.src.mkdir()
        for name, content in FILES.items():
            (self.src / name).write_text(content, encoding="utf-8")
        self.publish()

    def publish(self) -> None:
        made = self.ensure(path=f"{self.platform}/huggingface", src=str(self.src), remote_src=True, stores=[])
        assert made["changed"]

    def ensure(self, request: dict[str, Any] | None = None, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        options = {name: one.get("default") for name, one in HUB_CACHE.items()}
        trusted = [{"path": str(self.platform), "owners": [str(os.geteuid())]}]
        given = {"repo": "org/small", "path": str(self.home), "python": NO_HUB, "stores": trusted, **changes}
        return ensure_cache({**options, **given}, request or {}, check_mode=check_mode)

    @property
    def theirs(self) -> Path:
        return self.platform / "huggingface" / "hub" / "models--org--small"

    def blob(self, name: str) -> Path:
        return self.theirs / "blobs" / hashlib.sha256(FILES[name].encode()).hexdigest()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    before = os.umask(0o022)
    try:
        yield Site(tmp_path)
    finally:
        os.umask(before)


def test_a_model_is_copied_and_the_hub_is_not_asked(site: Site) -> None:
    foretold = site.ensure(check_mode=True)
    assert foretold["changed"]
    assert not site.home.exists()
    done = site.ensure()
    assert foretold["ref"] == {**done["ref"], "present": False}
    assert done["snapshot"]["source"] == f"{site.platform}/huggingface"
    assert {path.name: path.read_text() for path in Path(done["ref"]["path"]).iterdir()} == FILES
    for path in Path(done["ref"]["path"]).iterdir():
        assert path.resolve().is_relative_to(site.home), "a container has HF_HOME mounted, and not the store"
    assert "warnings" not in done
    assert not site.ensure()["changed"]


def test_what_is_damaged_comes_again_from_the_store(site: Site) -> None:
    made = site.ensure()
    (Path(made["ref"]["path"]) / "tokenizer.json").resolve().write_text("x", encoding="utf-8")
    assert site.ensure()["repaired"] == {"tokenizer.json": "has 1 bytes instead of 6"}
    assert (Path(made["ref"]["path"]) / "tokenizer.json").read_text() == "tokens"


def test_files_of_the_controller_that_the_store_has_are_not_sent(site: Site) -> None:
    files = [[name, hashlib.sha256(text.encode()).hexdigest(), len(text)] for name, text in FILES.items()]
    done = site.ensure({"files": files, "said": "/laptop/tokenizer", "commit": None})
    assert done["changed"] and "lacking" not in done
    other = [*files, ["more.json", "0" * 64, 1]]
    assert "lacking" in site.ensure({"files": other, "said": "/laptop/tokenizer", "commit": None})


@pytest.mark.parametrize("place", ["", "huggingface", "huggingface/hub", "huggingface/rankzero", "blob", "manifest"])
def test_what_others_could_write_is_passed_over_with_a_warning(site: Site, place: str) -> None:
    [manifest] = (site.platform / "huggingface" / "rankzero" / "models--org--small").glob("*.json")
    path = {"blob": site.blob("config.json"), "manifest": manifest}.get(place, site.platform / place)
    path.chmod(path.stat().st_mode | 0o020)
    files = [[name, hashlib.sha256(text.encode()).hexdigest(), len(text)] for name, text in FILES.items()]
    result = site.ensure({"files": files, "said": "/laptop/tokenizer", "commit": None})
    assert result["lacking"] == list(FILES)
    assert "can be written by the group" in result["warnings"][0]


def test_a_file_that_is_not_what_its_record_says_is_not_taken(site: Site) -> None:
    blob = site.blob("tokenizer.json")
    before = blob.stat()
    blob.write_text("tokenz", encoding="utf-8")
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))
    files = [[name, hashlib.sha256(text.encode()).hexdigest(), len(text)] for name, text in FILES.items()]
    result = site.ensure({"files": files, "said": "/laptop/tokenizer", "commit": None})
    assert result["lacking"] == ["tokenizer.json"]
    assert "tokenizer.json changed while it was copied, or was damaged" in result["warnings"][0]


@pytest.mark.parametrize("changes", [{"include": ["*.json", "*.txt"]}, {"update": True}, {"revision": "v2"}])
def test_another_selection_or_revision_is_asked_of_the_hub(site: Site, changes: dict[str, Any]) -> None:
    with pytest.raises(RankzeroError, match="cannot be run"):
        site.ensure(**changes)
