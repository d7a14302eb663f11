# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of each agent of a lab: the set-up of its namespace and the daemons that it runs. Pure.

There is one dict for each agent, in the form that `agent.py` reads. "lab" is the supervisor. In the realistic way,
"head" and each node have their own agent; in the simple way, the supervisor runs every daemon itself.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile, release
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import cgroups, sharing
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host

SUPERVISOR = "lab"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MUNGED, _SLURMD, _SLURMCTLD, _SLURMDBD, _MARIADBD = (
    "/usr/sbin/munged",
    "/usr/sbin/slurmd",
    "/usr/sbin/slurmctld",
    "/usr/sbin/slurmdbd",
    "/usr/sbin/mariadbd",
)
# A node has been up since its own start, as far as the kernel can do that: so Slurm sees that it has started again.
_UP_FROM_NOW = (
    '[ ! -e /proc/self/ns/time ] || set -- --time --boottime "-$(cut -d. -f1 /proc/uptime)" "$@"; exec "$0" "$@"'
)
# Major 120 is reserved for local use (the kernel's devices.txt), so a fake device is never a real GPU or /dev/null.
FAKE_GPU_MAJOR = 120
_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
    "fuse": (10, 229),
}
_NSSWITCH = "".join(
    f"{database}: files\n"
    for database in ("passwd", "group", "shadow", "gshadow", "hosts", "networks", "protocols", "services", "rpc")
)


def hosts_file(lab: Lab) -> str:
    """/etc/hosts of the head and every node. Addresses on the fabric have separate names (node01-ib)."""
    lines = ["127.0.0.1 localhost", f"{lab.address('head')} head"]
    # Nodes that share the host have no addresses of their own.
    names = lab.node_names if lab.realistic else ()
    lines.extend(f"{lab.address(name)} {name}" for name in names)
    lines.extend(f"{lab.address(name, 'ib0')} {name}-ib" for name in names)
    return "\n".join(lines) + "\n"


def static_files(lab: Lab) -> dict[str, str]:
    """The files below <directory>/etc that are bound over the host's files on the head."""
    return {"hosts": hosts_file(lab), "nsswitch.conf": _NSSWITCH, "resolv.conf": "", "hostname": "head\n"}


def render(lab: Lab, host: Host, python: str) -> dict[str, JsonObject]:
    """Agent name -> configuration. `python` is the interpreter that runs the agents."""
    if not lab.realistic:
        return {SUPERVISOR: _simple(lab, host)}
    configs = {"head": _head(lab, host, python)}
    configs.update({name: _node(lab, host, name) for name in lab.node_names})
    configs[SUPERVISOR] = _supervisor(lab, host, python, list(configs))
    return configs


def agent_program(lab: Lab) -> str:
    """The script that starts an agent. Its path in a command line also shows which lab the process belongs to."""
    return lab.path("lib", "agent")


def config_path(lab: Lab, agent: str) -> str:
    """The file that the agent reads when it starts."""
    return lab.path("etc", "agents", f"{agent}.json")


def socket_path(host: Host, agent: str) -> str:
    """The socket on which the agent answers."""
    return f"{host.socket_directory}/{agent}.sock"


def argv(lab: Lab, agent: str, python: str) -> list[str]:
    """The command that starts an agent. -I -S -B: ignore the caller's environment and site packages, write no .pyc."""
    return [python, "-I", "-S", "-B", agent_program(lab), config_path(lab, agent)]


def _environment(lab: Lab) -> dict[str, str]:
    # RANKZERO_LAB_MEMBER marks daemons and their children, so that they are found even after their supervisor was
    # killed.
    environment = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": "/", "RANKZERO_LAB_MEMBER": lab.directory}
    if not lab.realistic:
        environment["SLURM_CONF"] = lab.path("etc", "slurm", "slurm.conf")
    return environment


def _service(lab: Lab, command: list[str], log: str, user: str = "", start: bool = False) -> JsonObject:
    return {"argv": command, "user": user, "env": _environment(lab), "log": log, "start": start}


# ---- realistic --------------------------------------------------------------------------------------------------


def _supervisor(lab: Lab, host: Host, python: str, names: list[str]) -> JsonObject:
    services = {}
    for name in names:
        command = ["/usr/bin/unshare", "--mount", "--net", "--uts", "--ipc", "--propagation", "private"]
        if name != "head":
            # The head shares the host's pid namespace, so that pids recorded there by Ansible are valid everywhere.
            command = ["/bin/sh", "-c", _UP_FROM_NOW, *command, "--pid", "--fork", "--kill-child"]
        services[name] = _service(
            lab, command + argv(lab, name, python), lab.path("log", name, "agent.log"), start=True
        )
    if lab.internet:
        services["internet"] = _service(
            lab,
            [python, "-I", "-S", "-B", lab.path("lib", "internet"), f"{host.socket_directory}/head.pid"],
            lab.path("log", "head", "internet.log"),
        )
    return _supervised(host, services)


def _head(lab: Lab, host: Host, python: str) -> JsonObject:
    root = lab.path("head", "root")
    setup: list[list[Any]] = [
        *(_own_root(lab, root) if lab.root else _host_root(lab, root)),
        ["sysfs", f"{root}/sys"],
        *_run_directory(lab, root),
        _shared(lab, host, root),
        *_users(lab, root),
        ["bind", lab.path("etc", "slurm"), f"{root}/etc/slurm"],
        ["bind", lab.path("etc", "munge"), f"{root}/etc/munge"],
        *(["bind_over", lab.path("etc", name), f"{root}/etc/{name}"] for name in sorted(static_files(lab))),
        ["hostname", "head"],
        ["pivot", root],
        # After the pivot, user names are looked up in the new root.
        *_home(lab),
        ["mkdir", "/run/munge", 0o755, "munge"],
        ["mkdir", "/run/mysqld", 0o755, "mysql" if lab.accounting == "slurmdbd" else ""],
        # As systemd makes them: the sockets of auth/slurm.
        *(["mkdir", f"/run/{name}", 0o755, host.user] for name in ("slurmctld", "slurmdbd")),
    ]
    logs = lab.path("log", "head")
    services = {
        "munged": _munged(lab, lab.path("log", "munge", "head")),
        "slurmctld": _service(lab, [_SLURMCTLD, "-D"], f"{logs}/slurmctld.out", host.user),
    }
    if lab.accounting == "slurmdbd":
        socket = "/run/mysqld/mysqld.sock"
        services["mariadbd"] = _service(lab, _mariadbd_argv(lab, "mysql", socket), f"{logs}/mariadbd.log", "mysql")
        services["slurmdbd"] = _slurmdbd(lab, socket, host.user)
    if profile.on(host.features, "network_share"):
        command = [python, "-I", "-S", "-B", lab.path("lib", "fileserver"), lab.address("head"), str(sharing.PORT)]
        services[sharing.SERVER] = _service(lab, [*command, host.sftp_server], f"{logs}/fileserver.log", profile.USER)
        services[sharing.MOUNT] = _service(lab, sharing.mount_argv(lab), f"{logs}/shared.log")
    return {
        "name": "head",
        "socket": socket_path(host, "head"),
        "subreaper": True,
        "setup": setup,
        "services": services,
    }


def _host_root(lab: Lab, root: str) -> list[list[Any]]:
    # The head has its own /run and /sys. What is shared is the lab's, even if the host has a directory of that name.
    own = [path.split("/")[1] for path in (lab.shared_inside, *([profile.home(lab)] if lab.site else []))]
    return [["root_skeleton", root, lab.marker, ["run", "sys", *own, "lost+found"]]]


def _own_root(lab: Lab, root: str) -> list[list[Any]]:
    """Set up a head whose distribution differs from the host's.

    The host's home directories, /tmp, /proc, /dev and other trees are bound there, as Ansible on this host expects
    them, and its ordinary users are copied, but none of its programs is there.
    """
    return [
        ["root_overlay", root, lab.path("head", "disk"), lab.root],
        ["host_entries", root, list(release.OWN_DIRECTORIES)],
        # Ansible puts files for other users into /var/tmp.
        ["bind", "/var/tmp", f"{root}/var/tmp"],
        ["bind", lab.directory, f"{root}{lab.directory}"],
        *(["bind", bind, f"{root}{bind}"] for bind in lab.binds),
        *_accounts(lab, root),
        *(["copy", path, f"{root}{path}"] for path in release.CLIENT_SETTINGS),
    ]


def _accounts(lab: Lab, root: str) -> list[list[Any]]:
    return [["copy", lab.path("etc", name), f"{root}/etc/{name}"] for name in ("passwd", "group")]


def _run_directory(lab: Lab, root: str) -> list[list[Any]]:
    return [["tmpfs", f"{root}/run", lab.marker, "mode=755"], ["mkdir", f"{root}/run/lock", 0o1777]]


def _munged(lab: Lab, directory: str) -> JsonObject:
    command = [
        _MUNGED,
        "--foreground",
        "--key-file=/etc/munge/munge.key",
        "--socket=/run/munge/munge.socket.2",
        "--pid-file=/run/munge/munged.pid",
        f"--log-file={directory}/munged.log",
        f"--seed-file={directory}/munged.seed",
    ]
    return _service(lab, command, f"{directory}/munged.out", "munge")


def _node(lab: Lab, host: Host, name: str) -> JsonObject:
    root = lab.path("nodes", name, "root")
    enforced = profile.on(host.features, "cgroups")
    setup: list[list[Any]] = [
        *([["eldest_mounts"]] if profile.on(host.features, "private_tmp") else []),
        *([["join_cgroups", f"{lab.group}/{name}"]] if enforced else []),
        ["root_overlay", root, lab.path("nodes", name, "disk"), lab.root or "/"],
        *(_accounts(lab, root) if lab.root else []),
        ["mount", "proc", f"{root}/proc"],
        ["sysfs", f"{root}/sys"],
        *(_cgroups(lab, root) if enforced else []),
        *_device_directory(lab, root),
        ["tmpfs", f"{root}/tmp", lab.marker, "mode=1777"],
        *_run_directory(lab, root),
        _shared(lab, host, root),
        *_users(lab, root),
        ["bind", lab.path("etc", "slurm"), f"{root}/etc/slurm"],
        ["bind", lab.path("etc", "munge"), f"{root}/etc/munge"],
        ["bind", lab.path("log", name), f"{root}/var/log/slurm"],
        ["bind", lab.path("log", "munge", name), f"{root}/var/log/munge"],
        ["mkdir", f"{root}/var/spool/slurmd", 0o755],
        # The lab's own directory belongs to the host; through the overlay, nodes would see stale copies of its files.
        ["tmpfs", f"{root}{lab.directory}", lab.marker, "mode=755,size=64k"],
        *(["bind", bind, f"{root}{bind}"] for bind in lab.binds),
        ["write", f"{root}/etc/hostname", f"{name}\n"],
        ["write", f"{root}/etc/hosts", hosts_file(lab)],
        ["write", f"{root}/etc/nsswitch.conf", _NSSWITCH],
        ["write", f"{root}/etc/resolv.conf", ""],
        *([["write", f"{root}/etc/profile.d/site.sh", profile.LOGIN]] if lab.site else []),
        ["hostname", name],
        ["pivot", root],
        *_home(lab),
        ["mkdir", "/run/munge", 0o755, "munge"],
    ]
    services = {
        "munged": _munged(lab, "/var/log/munge"),
        "slurmd": _service(lab, [_SLURMD, "-D"], "/var/log/slurm/slurmd.out"),
    }
    if profile.on(host.features, "network_share"):
        services[sharing.MOUNT] = _service(lab, sharing.mount_argv(lab), "/var/log/slurm/shared.log")
    return {"name": name, "socket": socket_path(host, name), "setup": setup, "services": services}


def _shared(lab: Lab, host: Host, root: str) -> list[Any]:
    """/shared: bound from the lab's directory, or only a mount point when it is mounted over the network."""
    if profile.on(host.features, "network_share"):
        return ["mkdir", f"{root}{lab.shared_inside}"]
    return ["bind", lab.shared, f"{root}{lab.shared_inside}"]


def _users(lab: Lab, root: str) -> list[list[Any]]:
    if lab.root:  # a separate root already has them
        return []
    return [["bind_over", lab.path("etc", name), f"{root}/etc/{name}"] for name in ("group", "passwd")]


def _home(lab: Lab) -> list[list[Any]]:
    """The home of a site's user, on the disk of each host."""
    return [["mkdir", profile.home(lab), 0o755, profile.USER]] if lab.site else []


def _cgroups(lab: Lab, root: str) -> list[list[Any]]:
    return [["tmpfs", f"{root}{cgroups.MOUNT_POINT}", lab.marker, "mode=755"], ["mount_cgroups", root]]


def _device_directory(lab: Lab, root: str) -> list[list[Any]]:
    devices = f"{root}/dev"
    operations: list[list[Any]] = [["tmpfs", devices, lab.marker, "mode=755"]]
    operations.extend(["mknod", f"{devices}/{name}", *numbers] for name, numbers in _DEVICES.items())
    operations.extend(["mknod", f"{devices}/nvidia{index}", FAKE_GPU_MAJOR, index] for index in range(lab.gpus))
    operations.extend(
        [
            ["mount", "devpts", f"{devices}/pts", "newinstance,ptmxmode=0666,mode=0620,gid=5"],
            ["symlink", "pts/ptmx", f"{devices}/ptmx"],
            ["symlink", "/proc/self/fd", f"{devices}/fd"],
            ["symlink", "/proc/self/fd/0", f"{devices}/stdin"],
            ["symlink", "/proc/self/fd/1", f"{devices}/stdout"],
            ["symlink", "/proc/self/fd/2", f"{devices}/stderr"],
            ["tmpfs", f"{devices}/shm", lab.marker, "mode=1777"],
            ["mount", "mqueue", f"{devices}/mqueue"],
        ]
    )
    return operations


def _mariadbd_argv(lab: Lab, user: str, socket: str) -> list[str]:
    """The command of a small server: no network, and no durability when the machine loses power (a lab can lose its
    data).

    A starting server removes every temporary table in its tmpdir; in /tmp it would remove those of other labs' servers.
    """
    return [
        _MARIADBD,
        "--no-defaults",
        f"--user={user}",
        f"--datadir={lab.path('db')}",
        f"--tmpdir={lab.path('db')}",
        f"--socket={socket}",
        f"--pid-file={lab.path('db', 'mariadbd.pid')}",
        f"--init-file={lab.path('etc', 'grants.sql')}",
        "--skip-networking",
        "--skip-log-bin",
        "--skip-name-resolve",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=16M",
        "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=2",
    ]


def _slurmdbd(lab: Lab, socket: str, user: str = "") -> JsonObject:
    service = _service(lab, [_SLURMDBD, "-D"], f"{lab.path('log', 'head')}/slurmdbd.out", user)
    # Its client library has its own default for the socket, which differs in newer Debian releases.
    service["env"]["MYSQL_UNIX_PORT"] = socket
    return service


# ---- simple -----------------------------------------------------------------------------------------------------


def _simple(lab: Lab, host: Host) -> JsonObject:
    logs = lab.path("log", "head")
    munged = [
        _MUNGED,
        "--foreground",
        # munged warns that a socket below a home closed to others is inaccessible to them; here that is intended.
        "--force",
        f"--key-file={lab.path('etc', 'munge', 'munge.key')}",
        f"--socket={host.munge_socket}",
        f"--pid-file={lab.path('state', 'munged.pid')}",
        f"--log-file={logs}/munged.log",
        f"--seed-file={lab.path('state', 'munged.seed')}",
    ]
    conf = lab.path("etc", "slurm", "slurm.conf")
    services = {
        "munged": _service(lab, munged, f"{logs}/munged.out"),
        "slurmctld": _service(lab, [_SLURMCTLD, "-D", "-f", conf], f"{logs}/slurmctld.out"),
    }
    if lab.accounting == "slurmdbd":
        socket = f"{host.socket_directory}/mysqld.sock"
        services["mariadbd"] = _service(lab, _mariadbd_argv(lab, host.user, socket), f"{logs}/mariadbd.log")
        services["slurmdbd"] = _slurmdbd(lab, socket)
    for name in lab.node_names:
        command = [_SLURMD, "-D", "-f", conf, "-N", name]
        services[f"{name}.slurmd"] = _service(lab, command, lab.path("log", name, "slurmd.out"))
    return _supervised(host, services)


def _supervised(host: Host, services: JsonObject) -> JsonObject:
    """The configuration of the agent that starts the others."""
    return {
        "name": SUPERVISOR,
        "socket": socket_path(host, SUPERVISOR),
        "subreaper": True,
        "setup": [],
        "services": services,
    }
