# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of <directory>/bin and <directory>/lib, and the inventory, all as text. Pure.

They are plain sh because every command passes through them: check the recorded process, then nsenter and exec.
"""

from __future__ import annotations

import json
import shlex

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host

# Only these variables of the caller are passed on, as after an SSH login.
KEPT_VARIABLES = ("HOME", "USER", "LOGNAME", "TERM", "LANG", "LC_ALL", "TZ")
PROXY_PORT = 3128  # on the head's loopback; see machine/internet.py
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PACKAGE = "ansible_collections.rankzero.slurm.plugins.module_utils.lab"


def render(lab: Lab, host: Host, python: str) -> dict[str, str]:
    """Path below the lab's directory -> text of an executable."""
    scripts = {
        "bin/head": _HEADER.format(what="run a command on the head of the lab: head COMMAND [ARGUMENT...]")
        + 'if [ "$#" -eq 0 ]; then echo "usage: $0 COMMAND [ARGUMENT...]" >&2; exit 2; fi\n'
        + _enter(lab, host, "head"),
        "bin/sh": _HEADER.format(what="a shell on the head, with sh's own arguments; for ansible_shell_executable")
        # Ansible's become calls the shell again, inside the lab.
        + (f'[ "$(id -u)" != {profile.UID} ] || exec /bin/sh "$@"\n' if lab.realistic else "")
        + 'set -- /bin/sh "$@"\n'
        + _enter(lab, host, "head"),
        "bin/node": _HEADER.format(what="run a command on a node of the lab: node NAME COMMAND [ARGUMENT...]")
        + 'if [ "$#" -lt 2 ]; then echo "usage: $0 NAME COMMAND [ARGUMENT...]" >&2; exit 2; fi\n'
        + f'case " {" ".join(lab.node_names)} " in *" $1 "*) node=$1; shift ;;\n'
        + f'  *) echo "$0: no node $1; the lab has {lab.node_names[0]} to {lab.node_names[-1]}" >&2; exit 2 ;; esac\n'
        + _enter(lab, host, '"$node"'),
        "bin/fault": _python(lab, python, "faults", json.dumps(lab.directory) + ", sys.argv[1:]"),
        "lib/agent": _python(lab, python, "agent", "sys.argv[1:]"),
    }
    if lab.realistic and lab.internet:
        scripts["lib/internet"] = _python(lab, python, "machine.internet", "sys.argv[1:]")
    if profile.on(host.features, "network_share"):
        scripts["lib/fileserver"] = _python(lab, python, "machine.sharing", "sys.argv[1:]")
    if lab.realistic:
        scripts["bin/user"] = (
            _HEADER.format(what="run a command on the head as the lab's user: user COMMAND [ARGUMENT...]")
            + 'if [ "$#" -eq 0 ]; then echo "usage: $0 COMMAND [ARGUMENT...]" >&2; exit 2; fi\n'
            + f'exec {shlex.quote(lab.path("bin", "head"))} {shlex.join(profile.become_user(lab))} "$@"\n'
        )
    return scripts


def _python(lab: Lab, python: str, module: str, arguments: str) -> str:
    return (
        f"#!{python} -IB\n"
        "import sys\n\n"
        f"sys.path.insert(0, {json.dumps(lab.path('lib'))})\n"
        f"from {_PACKAGE}.{module} import main  # noqa: E402\n\n"
        f"sys.exit(main({arguments}))\n"
    )


_HEADER = "#!/bin/sh\n# Written by rankzero.slurm: {what}\n"

# In the new mount namespace: return to the caller's directory if it exists there, then run the command.
_LANDING = '\'cd "$1" 2>/dev/null || cd /; unset OLDPWD; shift; exec "$@"\' sh "$PWD"'


def _enter(lab: Lab, host: Host, where: str) -> str:
    kept = " ".join(f'${{{name}+"{name}=${name}"}}' for name in KEPT_VARIABLES)
    path = f'PATH="${{PATH:-{_PATH}}}"'
    if lab.root:
        # The caller's programs belong to another distribution.
        path = f"PATH={_PATH}"
    if not lab.realistic:
        name = "" if where == "head" else f"SLURMD_NODENAME={where} "
        conf = shlex.quote(f"SLURM_CONF={lab.path('etc', 'slurm', 'slurm.conf')}")
        return f'exec env -i {path} {kept} {name}{conf} "$@"\n'
    flags = "-m -u -i -n" if where == "head" else "-m -u -i -n -p"
    proxy = ""
    if where == "head" and lab.internet:
        url = f"http://127.0.0.1:{PROXY_PORT}"
        proxy = " ".join(f"{name}={url}" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"))
        # The proxy is outside, where nobody knows the hosts of the lab.
        direct = ",".join(("localhost", "127.0.0.1", "head", *lab.node_names))
        proxy += f" no_proxy={direct} NO_PROXY={direct} "
    return (
        f"where={where}\n"
        f"record={shlex.quote(host.socket_directory)}/$where.pid\n"
        # The pid alone may now belong to another process: compare its start time (field 22 of proc(5) stat). Z is dead.
        'if read -r pid start 2>/dev/null <"$record" && read -r line 2>/dev/null <"/proc/$pid/stat"; then\n'
        '  line=${line##*) }; now=$(set -f; set -- $line; echo "${20}$1")\n'
        "else now=gone; start=; fi\n"
        'if [ "${now%[RSDTt]}" != "$start" ]; then\n'
        '  echo "$0: $where of this lab is not running" >&2; exit 125\n'
        "fi\n"
        f'exec nsenter -t "$pid" {flags} -- /usr/bin/env -i {path} {kept} {proxy}/bin/sh -c {_LANDING} "$@"\n'
    )


def _become(lab: Lab) -> str:
    """On a site lab, Ansible works as the lab's user, as it would after a login as that user."""
    if not lab.site:
        return ""
    return "".join(f"      {name}: {json.dumps(value)}\n" for name, value in profile.become_variables(lab).items())


def inventory(lab: Lab) -> str:
    """An inventory whose group slurm_login is the lab's head, as YAML."""
    return (
        "# Written by rankzero.slurm: the head of the lab as an Ansible host.\n"
        "slurm_login:\n"
        "  hosts:\n"
        "    lab:\n"
        "      ansible_connection: local\n"
        f"      ansible_shell_executable: {json.dumps(lab.path('bin', 'sh'))}\n"
        "      ansible_python_interpreter: /usr/bin/python3\n" + _become(lab) + "  vars:\n"
        "    launch_cluster:\n"
        f"      state_root: {json.dumps(lab.shared_inside + '/rankzero/state')}\n"
        f"      store_root: {json.dumps(lab.shared_inside + '/rankzero/store')}\n"
        + (f"      resources: {{account: {profile.ACCOUNT}}}\n" if lab.site else "")
    )
