# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shell completion: scripts that call the command itself, so that verbs and options are defined in one place only."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rankzero.options import VERBS, parser
from rankzero.parsing import verb_parser
from rankzero.verbs import inventory_of

BASH = """\
_rankzero() {
    local IFS=$'\\n'
    COMPREPLY=($(rankzero __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _rankzero rankzero
"""
ZSH = """\
#compdef rankzero
_rankzero() {
    local -a found
    found=("${(@f)$(rankzero __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n $found[1] ]]; then compadd -- $found; else _files; fi
}
compdef _rankzero rankzero
"""
FISH = """\
function __rankzero_complete
    set -l words (commandline -opc) (commandline -ct)
    rankzero __complete $words[2..-1] 2>/dev/null
end
complete -c rankzero -a '(__rankzero_complete)'
"""


def script(shell: str) -> str:
    """The completion script of bash, zsh or fish, to be sourced: `source <(rankzero completion bash)`."""
    return {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell]


def candidates(words: Sequence[str]) -> list[str]:
    """The candidates for the last word. Empty if a file is expected, because the shell completes files."""
    *before, current = words or [""]
    if not before:
        return [verb for verb in VERBS if verb.startswith(current)]
    verb = before[0]
    if verb not in VERBS or "--" in before:
        return []
    if before[-1] in ("-c", "--cluster"):
        return [name for name in clusters() if name.startswith(current)]
    actions = verb_parser(parser(), verb)._actions
    if current.startswith("-"):
        return [option for action in actions for option in action.option_strings if option.startswith(current)]
    taking = next((action for action in actions if before[-1] in action.option_strings), None)
    if taking is not None and taking.nargs != 0:
        return [str(choice) for choice in taking.choices or () if str(choice).startswith(current)]
    if any(action.dest in ("launch", "launches") for action in actions):
        return [name for name in launches() if name.startswith(current)]
    choices = next((action.choices for action in actions if not action.option_strings and action.choices), ())
    return [str(choice) for choice in choices or () if str(choice).startswith(current)]


def launches(folder: str = "runs") -> list[str]:
    """The names of the launches whose logs are in `folder`."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return []


def clusters() -> list[str]:
    """The login nodes of the inventory's YAML files, read without Ansible: the hosts of the group slurm_login."""
    names: list[str] = []
    for place in inventory_of([]):
        entries = [place] if os.path.isfile(place) else sorted(entry.path for entry in os.scandir(place))
        for path in entries:
            if path.endswith((".yml", ".yaml")):
                names += _hosts(path)
    return list(dict.fromkeys(names))


def _hosts(path: str) -> list[str]:
    import yaml

    try:
        with open(path, encoding="utf-8") as stream:
            loaded = yaml.load(stream, yaml.BaseLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    groups = [loaded] if isinstance(loaded, dict) else []
    names: list[str] = []
    while groups:
        group = groups.pop()
        for name, content in group.items():
            if not isinstance(content, dict):
                continue
            hosts = content.get("hosts")
            if name == "slurm_login" and isinstance(hosts, dict):
                names += list(hosts)
            if isinstance(content.get("children"), dict):
                groups.append(content["children"])
    return names
