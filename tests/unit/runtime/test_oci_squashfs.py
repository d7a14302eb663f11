# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A squashfs file as an OCI container's root, by a real crun and a real squashfuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.unit.runtime.harness import Site
from tests.unit.runtime.test_oci import IMAGE_VALUES, image, job, oci, site, step_log, why_not

__all__ = ["image", "site"]  # fixtures

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
    pytest.mark.skipif(
        not shutil.which("squashfuse") or not os.access("/dev/fuse", os.R_OK | os.W_OK),
        reason="squashfuse is not installed, or /dev/fuse cannot be opened here",
    ),
]


def test_a_squashfs_file_is_mounted_and_served_while_the_container_lives(site: Site, image: Path) -> None:
    """One file a node; as root and as an ordinary user. What serves it ends with the container's last process."""
    squashfs = image.parent / "image.sqsh"
    code = "import json, os; print(json.dumps([os.path.exists('/in-the-image'), os.stat('/proc/self/ns/mnt').st_ino]))"
    spec = {"command": ["python3", "-c", code], "launcher": {"ranks_per_node": 2}}
    made = job(site, squashfs, spec)
    assert made.finish() == 0, made.log() + step_log(made)
    said = [json.loads(log.read_text().splitlines()[-1]) for log in (made.run / "logs" / "0").glob("rank-*.log")]
    assert said[0] == said[1] and said[0][0] is True
    again = job(site, squashfs, {"env": {"LANG": "C"}})
    assert again.finish() == 0
    seen = again.seen()["env"]
    assert (seen["MINE"], seen["LANG"], seen["PATH"]) == ("of the image", "C", IMAGE_VALUES["PATH"])
    deadline = time.monotonic() + 10
    while serving(squashfs):
        assert time.monotonic() < deadline, serving(squashfs)
        time.sleep(0.05)


def serving(image: Path) -> list[str]:
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if str(image) in line]


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ("squashfuse", "the command squashfuse is not on this node: install it"),
        ("image", "cannot be read by squashfuse"),
    ],
)
def test_a_squashfs_file_that_cannot_be_mounted_is_told(
    site: Site, image: Path, tmp_path: Path, lacking: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = tmp_path / "short.sqsh"
    short.write_bytes((image.parent / "image.sqsh").read_bytes()[:5000])
    if lacking == "squashfuse":
        monkeypatch.setattr(oci.squashfs, "SERVERS", ("squashfuse-of-nobody",))
        with pytest.raises(oci.rootfs.Failure, match=message):
            oci.squashfs.Served(str(short))
        return
    made = job(site, short)
    assert made.finish() != 0
    assert message in step_log(made), step_log(made)
