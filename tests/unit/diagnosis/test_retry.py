# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the same launch may succeed when it is tried again: each family says so, a program's own mistake never."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.events import Reader
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import model, registry
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import failure_families
from tests.repository import bullet_list
from tests.unit.diagnosis.test_facts import corpus, diagnosed
from tests.unit.diagnosis.test_signatures import DECLARED, TRACEBACK, WORDINGS

# A remedy that sends the user to try it once more; not after a change.
AGAIN = re.compile(r"(?:^|[.:;] )[Ll]aunch again")


def test_every_family_says_whether_another_try_can_help() -> None:
    assert [family["family"] for family in DECLARED if not isinstance(family.get("retry"), bool)] == []


def test_no_mistake_of_a_program_is_worth_another_try() -> None:
    wrong, seen = [], 0
    for name, text in corpus().items():
        found = diagnosed(text)
        if found.root is not None and advice.THE_SAME_AGAIN.match(found.root.text):
            seen += 1
            wrong += [f"{name}: {found.family}, {found.root.text}"] if found.retry else []
    assert not wrong, bullet_list(wrong)
    assert seen > 200, "the corpus was not read: this test would pass on anything"


def test_a_remedy_that_says_launch_again_says_retry() -> None:
    families = [(family["family"], family["remedy"], family.get("retry")) for family in DECLARED]
    wordings = [
        (family["family"], match["remedy"], match.get("retry")) for family, match in WORDINGS if "remedy" in match
    ]
    wrong = [
        f"{name}: {remedy}" for name, remedy, retry in [*families, *wordings] if AGAIN.search(remedy) and not retry
    ]
    assert not wrong, bullet_list(wrong)


@pytest.mark.parametrize(
    ("text", "family", "retry"),
    [
        ("n1:4:5 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found", "nccl_network", False),
        (
            "socketStartConnect: Connect to 127.0.0.1<4242> failed : Software caused connection abort",
            "nccl_network",
            False,
        ),
        # A process of the same node has ended: its address was right.
        ("socketStartConnect: Connect to 127.0.0.1<4242> failed : Connection refused", "nccl_network", True),
        ("socketStartConnect: Connect to 10.0.0.7<4242> failed : No route to host", "nccl_network", True),
        (
            "[W socket.cpp:4] The server socket has failed to bind to [::]:25 (errno: 98 - Address already in use).",
            "address_in_use",
            False,
        ),
        (
            "[W socket.cpp:4] The server socket has failed to bind to [::]:4242 (errno: 98 - Address already in use).",
            "address_in_use",
            True,
        ),
        (
            "n1:8:9 [0] bootstrap.cc:1 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in",
            "rendezvous_failure",
            False,
        ),
        ("salloc: Prolog failure on node n1", "node_failure", True),
        (
            "srun: error: Task launch for StepId=4.0 failed on node n1: Socket timed out on send/recv operation",
            "sbatch_rejected",
            True,
        ),
        ("sbatch: error: Batch job submission failed: Invalid account", "sbatch_rejected", False),
        (TRACEBACK.format("OSError: [Errno 95] Operation not supported"), "filesystem_io", False),
        (TRACEBACK.format("hub.OfflineModeIsEnabled: Cannot reach x.co: offline mode is enabled."), "offline", False),
        (
            TRACEBACK.format("requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='x.co', port=443): x"),
            "offline",
            True,
        ),
        (
            TRACEBACK.format(
                "ValueError: Ray component lamp_ports uses a port number 4 that is used by other components."
            ),
            "address_in_use",
            False,
        ),
        # Another process may have ended until then, in whatever words it is told.
        (TRACEBACK.format("RuntimeError: Port 4242 is already taken by another service"), "address_in_use", True),
        (TRACEBACK.format("RuntimeError: Port 4242 is occupied by another service"), "address_in_use", True),
        (TRACEBACK.format("RuntimeError: Port 4242 is already in use by another service"), "address_in_use", True),
        # An address ends like a port of the system.
        (
            "[W socket.cpp:4] The server socket has failed to bind 10.0.0.100 (errno: 98 - Address already in use).",
            "address_in_use",
            True,
        ),
        (TRACEBACK.format("AssertionError: CUDA error: uncorrectable ECC error encountered"), "cuda_device", False),
        (TRACEBACK.format("RuntimeError: CUDA error: uncorrectable ECC error encountered"), "cuda_device", True),
    ],
)
def test_within_a_family_a_setting_is_told_from_what_passes(text: str, family: str, retry: bool) -> None:
    found = diagnosed(f"start\n{text}\n")
    assert (found.family, found.retry) == (family, retry), found


@pytest.mark.parametrize(
    ("family", "wording", "promised"), [(True, None, True), (False, True, True), (True, False, False)]
)
def test_what_a_site_says_of_another_try_outweighs_the_name_of_the_exception(
    family: bool, wording: bool | None, promised: bool
) -> None:
    match = {"regex": "lamp broke", "strength": model.CAUSE, **({} if wording is None else {"retry": wording})}
    lamp = model.signature({"family": "lamp", "what": "x", "remedy": "y", "retry": family, "raises": [match]})
    signatures = (*registry.SIGNATURES, lamp)
    read = Reader(signatures).read(
        "logs/a.log", parse(TRACEBACK.format("AssertionError: lamp broke").encode().split(b"\n"))
    )
    found = advice.diagnosis_of(cause.find_cause([read]), scan.Scan(logs=[read], signatures=signatures))
    assert (found.family, found.retry) == ("lamp", promised)


def test_a_wording_of_a_site_may_say_it_too(tmp_path: Path) -> None:
    file = tmp_path / "lamp.yml"
    text = (
        "{family: lamp, what: no lamp, remedy: buy one, retry: true,"
        " says: [{regex: lamp broke, retry: %s, examples: [lamp broke]}]}"
    )
    file.write_text(text % "false")
    (family,) = failure_families.load_families([str(file)], str(tmp_path))
    assert (family["retry"], family["says"][0]["retry"]) == (True, False)
    file.write_text(text % "maybe")
    with pytest.raises(RankzeroError, match=r"says\[0\].retry must be true or false, not 'maybe'"):
        failure_families.load_families([str(file)], str(tmp_path))
