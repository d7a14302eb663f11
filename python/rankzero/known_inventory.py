# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one login node of a plain inventory, as ansible-inventory has read it, kept until a file of it changes.

Plain is what means the same each time: files of hosts and variables, and nothing that a program, a lookup or a password
decides. For any other inventory the answer is None, and a playbook reads it. Nothing here imports Ansible.

Only what a call needs of the login nodes is kept: how they are reached, and launch_cluster, which names secrets and
holds none. Of all other variables the names are kept, and none of their values. What is kept is named by the content of
every file that Ansible reads for the inventory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rankzero.playbook import DEFAULT_PATHS, SCREEN, ansible_playbook, collection_root, configuration, surroundings

if TYPE_CHECKING:
    from ansible_collections.rankzero.slurm.plugins.module_utils.core.user_cache import UserCache

#: Raised by a change of what is kept.
FORM = "3"
#: An inventory of more or larger files (bytes) is read by a playbook each time.
MOST_FILES, MOST_BYTES = 200, 1 << 20
INVENTORY_SECONDS = 60
#: What it says of an installed collection. A checkout is a link, of which it says nothing.
INSTALLED = b"[WARNING]: running with default collection rankzero.slurm"
#: Ansible's settings that change nothing of what is asked and shown, by section of ansible.cfg; the next line has their
#: variables. With any other setting a playbook is run.
SETTINGS = {
    "defaults": {
        *("inventory", "collections_path", "interpreter_python", "stdout_callback", "nocows", "retry_files_enabled"),
        *("localhost_warning", "deprecation_warnings"),
    },
    "connection": {"pipelining"},
    "ssh_connection": {"pipelining"},
}
VARIABLES = {
    *("ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_INVENTORY", "ANSIBLE_PYTHON_INTERPRETER"),
    *("ANSIBLE_LOCALHOST_WARNING", "ANSIBLE_INVENTORY_UNPARSED_WARNING", "ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_NOCOWS"),
}
#: The variables of a connection that a plain host may have.
CONNECTION = {
    *("ansible_connection", "ansible_host", "ansible_user", "ansible_port", "ansible_python_interpreter"),
    "ansible_shell_executable",
}
#: Folders from which Ansible loads code by itself.
PLUGINS = ("~/.ansible/plugins", "/usr/share/ansible/plugins")
_WORD = re.compile(r"[A-Za-z0-9][\w.:@-]*", re.ASCII)
_TEMPLATE = re.compile(r"\{[{%#]")
#: What YAML may have taken for a date: a playbook gets it as one.
_DATE = re.compile(r'"\d{4}-\d\d?-\d\d?[^"]*"')
#: A name in a map that is a number or true in YAML, and a text in what ansible-inventory writes.
_NO_NAME = re.compile(r'"(?:-?\d[^"]*|true|false|null|-?Infinity|NaN)":')
#: An inventory file for a plugin says so with this key.
_OF_PLUGIN = re.compile(r"""(?<![\w-])plugin['"]?\s*:""")


class NotPlain(Exception):
    """Only a playbook can do this. The message says why."""


@dataclass(frozen=True)
class Login:
    """A login node: how to reach it, and what the inventory says of its cluster (`launch_cluster`). None:
    the default.

    `defined`: the names of all its variables.
    """

    name: str
    connection: str
    address: str
    user: str | None
    port: str | None
    python: str
    shell: str
    cluster: dict[str, Any]
    defined: list[str]


def login_of(inventory: Sequence[str], cluster: str | None, environment: Mapping[str, str]) -> Login:
    """The login node that a playbook would use: the host `cluster`, or the only one of the group slurm_login.

    Raises NotPlain.
    """
    settings = _settings(environment)
    sources = list(inventory) or _configured(environment, settings)
    key = _digest(_files(sources), [*map(os.path.abspath, sources), *_versions(), repr(sorted(settings.items()))])
    cache = _cache(environment)
    known = _kept(cache.read(f"{key}.json"))
    if known is None:
        try:
            known = {"logins": {name: asdict(one) for name, one in _read(sources, environment)}}
        except NotPlain as reason:
            known = {"reason": str(reason)}
        cache.write(f"{key}.json", json.dumps(known).encode())
    chosen = known.get("logins", {}).get(cluster or "")
    if chosen is None:
        raise NotPlain(known.get("reason") or f"{cluster or 'slurm_login'} is not one plain host of {sources}")
    return Login(**chosen)


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of ansible.cfg. Raises NotPlain for one that may change what is asked or shown."""
    import configparser

    strange = sorted(
        name for name in environment if name.startswith("ANSIBLE_") and name not in VARIABLES and environment[name]
    )
    if strange:
        raise NotPlain(f"{strange[0]} is set")
    if environment.get("ANSIBLE_STDOUT_CALLBACK", SCREEN) != SCREEN:
        raise NotPlain("another callback shows the output")
    if any(os.path.exists(os.path.expanduser(place)) for place in PLUGINS):
        raise NotPlain("the user has plugins of Ansible")
    if "ANSIBLE_CONFIG" not in environment and os.path.exists("ansible.cfg") and os.stat(".").st_mode & 0o002:
        raise NotPlain("Ansible does not read ansible.cfg in a folder that anybody may write")
    places = [environment.get("ANSIBLE_CONFIG"), "ansible.cfg", "~/.ansible.cfg", "/etc/ansible/ansible.cfg"]
    path = next((place for each in places if each and os.path.exists(place := os.path.expanduser(each))), None)
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
    try:
        if path and not parser.read(path, encoding="utf-8"):
            raise NotPlain(f"{path} cannot be read")
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        raise NotPlain(f"{path}: {error}") from None
    for section in parser.sections():
        for name in parser[section]:
            if name not in SETTINGS.get(section, ()):
                raise NotPlain(f"{path} sets {name}")
    known = configuration(environment)
    if known.get("stdout_callback", SCREEN) != SCREEN:
        raise NotPlain("another callback shows the output")
    if not _is_this_collection(environment.get("ANSIBLE_COLLECTIONS_PATH") or known.get("collections_path")):
        raise NotPlain("a playbook would use another copy of the collection")
    return {**known, "path": os.path.abspath(path) if path else ""}


def _is_this_collection(paths: str | None) -> bool:
    """Whether Ansible would find this copy of the collection. That of an installation always comes first."""
    from rankzero.library import collection

    if collection_root() is not None:
        return True
    parts = ("ansible_collections", "rankzero", "slurm")
    found = (os.path.join(os.path.expanduser(part), *parts) for part in (paths or DEFAULT_PATHS).split(":"))
    first = next(filter(os.path.isdir, found), None)
    return first is not None and os.path.samefile(first, collection())


def _configured(environment: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """The inventories that Ansible's own settings name."""
    given, base = environment.get("ANSIBLE_INVENTORY"), "."
    if not given:
        given, base = settings.get("inventory"), os.path.dirname(settings["path"])
    return [os.path.join(base, os.path.expanduser(part.strip())) for part in (given or "").split(",") if part.strip()]


def _files(sources: Sequence[str]) -> list[str]:
    """All files that Ansible may read for these inventories. Raises NotPlain."""
    found: list[str] = []
    for source in sources:
        if "," in source or not os.path.exists(source):
            raise NotPlain(f"{source} is no file or folder")
        beside = [os.path.join(os.path.dirname(source), name) for name in ("group_vars", "host_vars")]
        found += (
            _below(source) if os.path.isdir(source) else [source, *(file for top in beside for file in _below(top))]
        )
    if not sources or len(found) > MOST_FILES:
        raise NotPlain("no inventory, or one of very many files")
    return found


def _below(top: str) -> Iterator[str]:
    for folder, names, files in os.walk(top):
        names.sort()
        if "vars_plugins" in names or any(os.path.islink(os.path.join(folder, name)) for name in names):
            raise NotPlain(f"{folder} has plugins or links to folders")
        yield from (os.path.join(folder, name) for name in sorted(files))


def _text(path: str) -> str:
    """A file of an inventory. Raises NotPlain for one that does not mean the same each time."""
    try:
        if not os.path.isfile(path):
            raise NotPlain(f"{path} is not a file")
        executable = os.access(path, os.X_OK)
        with open(path, encoding="utf-8") as stream:
            text = stream.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise NotPlain(f"{path}: {error}") from None
    if len(text) > MOST_BYTES or executable or text.startswith(("#!", "$ANSIBLE_VAULT")):
        raise NotPlain(f"{path} is a program, encrypted or large")
    variables = {"group_vars", "host_vars"} & set(os.path.dirname(path).split(os.sep))
    if not variables and _OF_PLUGIN.search(text):
        raise NotPlain(f"{path} is for a plugin of Ansible")
    return text


def _digest(files: Iterable[str], words: Iterable[str]) -> str:
    """The name of what is known of these files. Raises NotPlain."""
    content = json.dumps([FORM, *words, {os.path.abspath(path): _text(path) for path in files}])
    return hashlib.sha256(content.encode()).hexdigest()


def _versions() -> list[str]:
    """What else the answer depends on: the Ansible that reads the files."""
    program = ansible_playbook()
    return [program, sys.version, str(os.stat(program).st_mtime_ns)]


def _read(sources: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[str, Login]]:
    """The name by which each plain host can be chosen, empty for the only one of slurm_login, and the host."""
    from rankzero.library import collection, importable

    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
    from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

    words = [os.path.join(os.path.dirname(ansible_playbook()), "ansible-inventory"), "--list"]
    # As for the playbook, so that variables beside it count and those of this folder do not.
    words += ["--playbook-dir", os.path.join(collection(), "playbooks")]
    try:
        done = children.run(
            [*words, *(word for source in sources for word in ("-i", source))],
            surroundings(environment, os.devnull),
            seconds=INVENTORY_SECONDS,
        )
        listed = json.loads(done.stdout)
    except (OSError, ValueError, RankzeroError) as error:
        raise NotPlain(f"ansible-inventory: {error}") from None
    said = [line for line in done.err.splitlines() if line.strip() not in (b"", INSTALLED)]
    if done.returncode or said:
        raise NotPlain("ansible-inventory has something to say")
    variables = listed.get("_meta", {}).get("hostvars", {})
    for group in listed:
        hosts = _hosts(listed, group)
        if group not in ("_meta", *variables) and len(hosts) == 1:
            (name,) = hosts
            yield from _plain(group, name, variables)
            if group == "slurm_login":
                yield from _plain("", name, variables)
    for name in _hosts(listed, "all"):
        if name not in listed:
            yield from _plain(name, name, variables)


def _hosts(listed: Mapping[str, Any], group: str, above: tuple[str, ...] = ()) -> set[str]:
    own = listed.get(group, {})
    inner = [_hosts(listed, child, (*above, group)) for child in own.get("children", []) if child not in above]
    return {*own.get("hosts", []), *(name for hosts in inner for name in hosts)}


def _plain(chosen: str, name: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, Login]]:
    """The host as a login node, if all that matters of it is plain."""
    own = variables.get(name, {})
    cluster = own.get("launch_cluster", {})
    matters = {key: value for key, value in own.items() if key.startswith("ansible_")}
    matters.update(launch_cluster=cluster, slurm_cluster=own.get("slurm_cluster", ""), name=name, chosen=chosen)
    given = {key: str(own[key]) for key in CONNECTION if own.get(key) is not None}
    words = [name, *(given[key] for key in ("ansible_host", "ansible_user", "ansible_port") if key in given)]
    python = given.get("ansible_python_interpreter", "auto")
    connection = given.get("ansible_connection", "ssh")
    if (
        name == "localhost"
        or connection not in ("local", "ssh")
        or {key for key in own if key.startswith("ansible_")} - CONNECTION
        or not all(map(_WORD.fullmatch, words))
        or not isinstance(cluster, dict)
        or not isinstance(cluster.get("state_root", ""), str)
        or not isinstance(own.get("slurm_cluster", ""), str)
        or _TEMPLATE.search(text := json.dumps(matters))
        or _DATE.search(text)
        or _NO_NAME.search(text)
        or "__ansible_" in text
    ):
        return
    yield (
        chosen,
        Login(
            name=name,
            connection=connection,
            address=given.get("ansible_host", name),
            user=given.get("ansible_user"),
            port=given.get("ansible_port"),
            # As the action of a playbook, which has asked the host for nothing before.
            python="python3" if python.startswith("auto") else python,
            shell=given.get("ansible_shell_executable", "/bin/sh"),
            cluster=cluster,
            defined=sorted(own),
        ),
    )


def _cache(environment: Mapping[str, str]) -> UserCache:
    """What earlier commands have read."""
    from rankzero.library import importable

    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import user_cache
    from ansible_collections.rankzero.slurm.plugins.module_utils.core.user_cache import UserCache

    return UserCache(user_cache("inventories", environment=environment))


def _kept(content: bytes | None) -> dict[str, Any] | None:
    """What an earlier command has read; None if there is none."""
    try:
        known = json.loads(content or b"null")
    except ValueError:
        return None
    return known if isinstance(known, dict) else None
