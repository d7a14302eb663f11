# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profile `site`: restrictions of real sites that the friendly profile does not have.

Slurm's settings, the site's rules, and its user. Pure except for `probe`, which asks this machine what it can do.
Sources: slurm.conf(5), cgroup.conf(5), job_container.conf(5), sacctmgr(1); for job_submit.lua, Slurm's guide to job
submit plugins.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import cgroups, sharing

Features = Mapping[str, "bool | str"]

# The ordinary user of every lab with nodes of their own, who exists only on its head and nodes and owns all that a
# site shares. The number is one of those that a directory service gives.
USER, UID = "labuser", 260001
ACCOUNT, OTHER_ACCOUNT = "research", "teaching"
# Where distributions install Slurm's plugins.
_PLUGINS = ("/usr/lib/*/slurm*", "/usr/lib/slurm*", "/usr/lib64/slurm*")

# What login shells of nodes read: profiles of sites print, and take their time.
LOGIN = "echo 'Welcome to this site. Read the news before you compute.'\nsleep 1\n"

_LUA = """\
-- Written by rankzero.slurm. Sites do such things: jobs are charged to an account, and comments are the site's.
function slurm_job_submit(job, partitions, uid)
   if job.account == nil then
      slurm.log_user("this site charges every job to an account: give --account")
      return slurm.ERROR
   end
   job.comment = "checked by the site"
   return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end

return slurm.SUCCESS
"""


def probe(lab: Lab) -> dict[str, bool | str]:
    """What this machine can enforce in a lab: feature -> True, or the reason why not. Every feature is included."""
    if not lab.site:
        reason = "profile friendly does not do this"
        return dict.fromkeys(("cgroups", "affinity", "private_tmp", "job_submit", "network_share", "nfs"), reason)
    with open("/proc/filesystems", encoding="utf-8") as stream:
        filesystems = stream.read()
    return {
        "cgroups": cgroups.obstacle(cgroups.mounted()) or True,
        "affinity": _plugin(lab, "task_affinity") or True,
        "private_tmp": _plugin(lab, "job_container_tmpfs") or True,
        "job_submit": _plugin(lab, "job_submit_lua") or True,
        "network_share": sharing.obstacle(filesystems) or True,
        "nfs": sharing.nfs_obstacle(filesystems),
    }


def _plugin(lab: Lab, name: str) -> str:
    # A separate root has all plugins, but it may not be built yet.
    installed = bool(lab.root) or any(glob.glob(f"{place}/{name}.so") for place in _PLUGINS)
    return "" if installed else f"Slurm's plugin {name} is not installed (package slurm-wlm-basic-plugins)"


def on(features: Features, name: str) -> bool:
    """Whether a lab has a feature."""
    return features.get(name) is True


def settings(lab: Lab, features: Features) -> list[tuple[str, object]]:
    """Settings of slurm.conf that replace those of the friendly profile or are added to them."""
    if not lab.site:
        return []
    enforced = on(features, "cgroups")
    tasks = [
        name for name, feature in (("task/cgroup", "cgroups"), ("task/affinity", "affinity")) if on(features, feature)
    ]
    pairs: list[tuple[str, object]] = [
        ("ProctrackType", "proctrack/cgroup" if enforced else "proctrack/linuxproc"),
        ("TaskPlugin", ",".join(tasks) or "task/none"),
        # Jobs are not requeued unless they ask for it, and users cannot see each other's jobs.
        ("JobRequeue", 0),
        ("PrivateData", "jobs,accounts,usage"),
    ]
    if on(features, "private_tmp"):
        pairs += [("JobContainerType", "job_container/tmpfs"), ("PrologFlags", "Contain")]
    if on(features, "job_submit"):
        pairs.append(("JobSubmitPlugins", "lua"))
    if lab.accounting == "slurmdbd":
        pairs.append(("AccountingStorageEnforce", "associations,limits,qos"))
    return pairs


def files(lab: Lab, features: Features) -> dict[str, str]:
    """Additional files next to slurm.conf, and replacements for files of the friendly profile."""
    contents: dict[str, str] = {}
    if not lab.site:
        return contents
    if on(features, "cgroups"):
        contents["cgroup.conf"] = (
            "CgroupPlugin=cgroup/v1\n"
            + ("" if lab.root else "CgroupAutomount=no\n")
            + f"CgroupMountpoint={cgroups.MOUNT_POINT}\n"
            "ConstrainCores=yes\n"
            "ConstrainRAMSpace=yes\n"
            f"ConstrainDevices={'yes' if lab.gpus else 'no'}\n"
        )
    if on(features, "private_tmp"):
        contents["job_container.conf"] = "AutoBasePath=true\nBasePath=/var/spool/job_container\n"
    if on(features, "job_submit"):
        contents["job_submit.lua"] = _LUA
    return contents


def account_commands(lab: Lab) -> list[list[str]]:
    """sacctmgr's arguments for the site's accounts, its limits by QOS, and its user. Run once per database."""
    if not lab.site:
        return []
    both = f"{ACCOUNT},{OTHER_ACCOUNT}"
    return [
        ["add", "account", both, "Description=lab", "Organization=lab"],
        ["modify", "qos", "normal", "set", "MaxSubmitJobsPerUser=200", "Flags=DenyOnLimit"],
        ["add", "qos", "debug", "MaxWall=00:10:00", "MaxJobsPerUser=2", "Flags=DenyOnLimit"],
        ["add", "user", USER, f"Account={ACCOUNT}", f"DefaultAccount={ACCOUNT}", "QOS=normal,debug"],
    ]


def with_user(text: str, line: str) -> str:
    """Add the lab's user to the text of a passwd or group file. Entries with the same name or number are removed."""
    name, _x, number = line.split(":")[:3]
    kept = [entry for entry in text.splitlines() if entry.split(":")[0] != name and entry.split(":")[2:3] != [number]]
    return "\n".join([*kept, line]) + "\n"


def user_files(lab: Lab, passwd: str, group: str) -> dict[str, str]:
    """The lab's /etc/passwd and /etc/group, made from those of the machine or of its release."""
    return {
        "passwd": with_user(passwd, f"{USER}:*:{UID}:{UID}:user of the lab:{home(lab)}:/bin/bash"),
        "group": with_user(group, f"{USER}:*:{UID}:"),
    }


def home(lab: Lab) -> str:
    """The home of the lab's user. On a site the head and every node have their own."""
    return f"/users/{USER}" if lab.site else f"{lab.shared_inside}/home/{USER}"


def become_user(lab: Lab) -> Sequence[str]:
    """The argv prefix that changes from root to the lab's user on the head or a node, as after a login."""
    return (
        "setpriv", f"--reuid={UID}", f"--regid={UID}", "--init-groups",
        "env", f"HOME={home(lab)}", f"USER={USER}", f"LOGNAME={USER}",
    )  # fmt: skip


def become_variables(lab: Lab) -> dict[str, str | bool]:
    """The variables of Ansible that make it work as the lab's user, as after a login.

    Ansible sends no module through su by pipelining, but through sudo it does. So `become_user` stands in sudo's place:
    its last word, env, takes the `-u NAME` that Ansible writes for sudo, and removes a variable that is not there.
    """
    program, *words = become_user(lab)
    return {
        "ansible_become": True,
        "ansible_become_method": "ansible.builtin.sudo",
        "ansible_become_exe": program,
        "ansible_become_flags": " ".join([*words, "env"]),
        "ansible_become_user": USER,
        "ansible_pipelining": True,
    }
