# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Login profiles of nodes that print, fail, and never end: no job may read them."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from tests.cluster.launching import RESULT, Site

PROFILE = "/etc/profile.d/rankzero-test.sh"


def the_profile_is_not_read(site: Site) -> None:
    """A launch on two nodes whose profile holds every login: it starts, and its ranks have no variable of it."""
    read = f"{site.state_root}.read"
    text = f"echo a profile prints; export OF_THE_PROFILE=1; echo $PPID >> {read}; sleep 900; false"
    for node in site.lab.nodes:
        site.lab.node(node, ["sh", "-c", f"printf '%s\\n' '{text}' > {PROFILE}"])
    try:
        job = site.job(f"env > env.$RANK; {RESULT}", resources={"nodes": 2, "time": "00:05:00"}, artifact={})
        launch = site.launch(job)
        assert site.outcome(launch)["success"]
        assert not site.host_path(read).exists(), "a login shell was started"
    finally:
        for node in site.lab.nodes:
            site.lab.node(node, ["rm", "-f", PROFILE])
    for rank in range(2):
        lines = (site.run_dir(launch) / "work" / f"env.{rank}").read_text(encoding="utf-8").splitlines()
        env = dict(line.partition("=")[::2] for line in lines)
        home = profile.home(site.lab.lab) if site.user.ordinary else "/root"
        assert {env[name] for name in ("USER", "LOGNAME")} == {site.user.name} and env["HOME"] == home
        assert env["SHELL"].startswith("/") and env["PATH"].startswith("/usr/local/bin:/usr/bin:/bin:")
        assert not {"OF_THE_PROFILE", "LC_ALL", "LANG", "SLURM_GET_USER_ENV"} & env.keys()
