# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a CI system is told about failed launches: annotations of GitHub Actions, a code quality report of GitLab."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page import Page, PageLaunch
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import FAILED
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place

GITHUB, GITLAB, NONE = "github", "gitlab", "none"
CODE_QUALITY = "gl-code-quality-report.json"
# The file whose path GitHub Actions gives in this variable becomes the summary of the job.
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def platform(environment: Mapping[str, str]) -> str:
    """The CI system that this process runs in."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return GITHUB
    return GITLAB if environment.get("GITLAB_CI") == "true" else NONE


def failures(page: Page) -> list[tuple[str, str]]:
    """(launch, message) of each launch that has failed."""
    return [(launch.short_name, _message(launch)) for launch in page.launches if launch.standing == FAILED]


def annotation_lines(page: Page) -> list[str]:
    """The lines that GitHub Actions shows as annotations."""
    return [f"::error title={_property(name)}::{_data(text)}" for name, text in failures(page)]


def append_summary(summary: str, environment: Mapping[str, str]) -> None:
    """Append the summary to that of the job in GitHub Actions, where it is not part of it. Raises RankzeroError."""
    place = environment.get(STEP_SUMMARY)
    if not place:
        return
    folder, name = Place.of_file(place)
    try:
        with folder.opened() as opened:
            if summary not in (opened.read(name) or ""):
                with opened.growing(name) as stream:
                    stream.write(summary.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise RankzeroError(f"annotations: {STEP_SUMMARY}={place} cannot be written: {error.strerror}") from error


def code_quality(page: Page) -> str:
    """The code quality report of GitLab: one row for each launch that has failed."""
    rows = [
        {
            "description": f"{name}: {text}", "check_name": "rankzero", "severity": "major",
            "fingerprint": hashlib.sha256(name.encode()).hexdigest(),
            "location": {"path": name, "lines": {"begin": 1}},
        }
        for name, text in failures(page)
    ]  # fmt: skip
    return json.dumps(rows, indent=1) + "\n"


def _message(launch: PageLaunch) -> str:
    # The message names the cause. Without the columns that the lines have on a screen.
    where = [" ".join(line.split()) for line in launch.cause if line.startswith("where")]
    return printable("; ".join([launch.message, *where[:1]]), 500)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
