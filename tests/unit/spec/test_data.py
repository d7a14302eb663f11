# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datasets in a job spec: what is accepted, what makes another launch, where the ranks find them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from tests.unit.plan.containers import planned

ONE, TWO = "1" * 64, "2" * 64
BY_NAME = "/store/datasets/by-name/text"


def plan_of(data: Any, **container: Any) -> Plan:
    return planned(container, data=data)


def found(data: Any) -> dict[str, str]:
    return {name: value for name, value in plan_of(data).exports if name.startswith("RANKZERO_DATA_")}


def test_a_path_is_read_where_it_is() -> None:
    assert found({"text": "/data/text/"}) == {"RANKZERO_DATA_TEXT": "/data/text"}
    assert found({"text": BY_NAME}) == {"RANKZERO_DATA_TEXT": BY_NAME}
    assert not [ref for ref in plan_of({"text": BY_NAME}).refs if ref.kind == "dataset"]


def test_a_ref_is_that_version_whatever_the_name_leads_to_later() -> None:
    ref = {"kind": "dataset", "key": "a" * 64, "path": BY_NAME, "digest": ONE, "present": True}
    assert found({"text": ref}) == {"RANKZERO_DATA_TEXT": f"/store/datasets/{ONE}/data"}
    [dataset] = [one for one in plan_of({"text": ref}).refs if one.kind == "dataset"]
    assert (dataset.key, dataset.path) == (ONE, f"/store/datasets/{ONE}")
    assert found({"text": f"/store/datasets/{ONE}/data"}) == found({"text": ref})


def test_the_version_makes_the_launch_and_the_path_only_without_one() -> None:
    def key(path: str, digest: str | None = None, **more: Any) -> str:
        return plan_of({"text": {"path": path, "digest": digest, **more}}).key

    assert key(BY_NAME, ONE) == key("/elsewhere/datasets/by-name/x", ONE) == key("/dest", ONE)
    assert key(BY_NAME, ONE) == key(BY_NAME, ONE, packed="yes", local_copy="auto")
    assert len({key(BY_NAME, ONE), key(BY_NAME, TWO), key(BY_NAME), key("/other"), planned({}).key}) == 5


def test_a_container_sees_what_its_ranks_read() -> None:
    made = plan_of({"text": {"path": BY_NAME, "digest": ONE}, "more": "/data/more"}, runtime="oci", image="/i.sqsh")
    assert made.container is not None
    assert {f"/store/datasets/{ONE}/data", "/data/more"} <= {mount.target for mount in made.container.mounts}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"text": "relative"}, "data: text must be an absolute path on the cluster"),
        ({"Text": "/x"}, "key 'Text' must be a name of small letters"),
        (
            {"text": {"pat": "/x"}},
            "text has the key 'pat'; did you mean path?; known: path, digest, packed, local_copy",
        ),
        ({"text": {}}, "text needs a path"),
        ({"text": ["/x"]}, "text must be a path, or a map with path"),
        ({"text": {"path": "/x", "kind": "hub"}}, "text is a ref of kind 'hub'; expected one of module dataset"),
        ({"text": {"path": "/x", "digest": "abc"}}, "a digest of 64 hexadecimal digits"),
        ({"text": {"path": "/x", "packed": True}}, "text is packed"),
        (
            {"text": {"path": f"/s/datasets/{ONE}/data", "digest": TWO}},
            "has version 1111111111111111 in its path",
        ),
        ({"text": {"path": "/x", "local_copy": "maybe"}}, "must be one of never, auto, always"),
    ],
)
def test_mistakes(data: Any, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        plan_of(data)
    assert message in str(raised.value)
