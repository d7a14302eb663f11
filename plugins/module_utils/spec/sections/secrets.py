# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of secrets. A secret's value is never part of a spec, a plan or a module argument."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t

KINDS = ("from_env", "from_file", "from_var")
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
VARIABLE_NAME = "the name of an environment variable: letters, digits and _, and no digit first"


# Names of variables that hold secrets: HF_TOKEN, WANDB_API_KEY, AWS_SECRET_ACCESS_KEY.
_SECRET = re.compile(
    r"(?:^|_)(?:TOKEN|PASSWORD|PASSWD|SECRET|API_KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY)$", re.IGNORECASE
)


# An assignment in a shell script whose value is text, not that of another variable or command.
_LITERAL = re.compile(r"(?:^|[\s;&|(])(?P<name>[A-Za-z_][A-Za-z0-9_]{0,99})=['\"]?[^\s'\"$`;&|)]")
# Characters of a line that are looked at.
_LINE = 4096


def exposed_secrets(env: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable of `env` that looks like a secret by its name. No value is shown."""
    return [
        f"env.{name}: the value is written into the script and the manifest; if it is a secret, use "
        f"secrets: {{{name}: {{from_env: {name}}}}}"
        for name, value in env.items()
        if value and _SECRET.search(name)
    ]


def exposed_in_script(text: str) -> list[str]:
    """Return a warning for each line of a script that gives a variable which looks like a secret a literal value. No
    value is shown.
    """
    return [
        f"script: line {number} sets {match['name']}, and the text is written into the run directory; if that is a "
        f"secret, take it out and use secrets: {{{match['name']}: {{from_env: {match['name']}}}}}"
        for number, line in enumerate(text.split("\n"), 1)
        for match in _LITERAL.finditer(line[:_LINE])
        if _SECRET.search(match["name"])
    ]


@dataclass(frozen=True)
class SecretSource:
    """The source of a secret.

    `kind`: from_env (a variable of the controller), from_file (path on the cluster) or from_var (Ansible variable).
    """

    kind: str
    name: str


def _parse(value: object) -> SecretSource:
    allowed = "must be one of {from_env: NAME}, {from_file: PATH-on-the-cluster}, {from_var: NAME}"
    if not isinstance(value, Mapping):
        # The value is not shown, because a user may have put the secret itself here.
        raise t.Invalid(f"{allowed}: a secret's value does not belong into a spec")
    if len(value) != 1 or next(iter(value)) not in KINDS:
        raise t.Invalid(f"{allowed}, not a map with the keys {', '.join(map(str, value)) or '(none)'}")
    kind, name = next(iter(value.items()))
    pattern, words = (r"[~/].*", "an absolute path") if kind == "from_file" else (VARIABLE, "the name of a variable")
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        # The name is not shown either.
        raise t.Invalid(f"{kind} must be {words}")
    return SecretSource(str(kind), t.to_text(name))


SECRET_SOURCE = t.Type(
    "the source of a value",
    _parse,
    {
        "type": "object",
        "properties": {kind: {"type": "string"} for kind in KINDS},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    },
)

_SOURCES = t.mapped(VARIABLE, VARIABLE_NAME, SECRET_SOURCE)


def _parse_all(value: object) -> object:
    if not isinstance(value, Mapping):
        raise t.Invalid("must be a map: NAME -> where the value is; a secret's value does not belong into a spec")
    return _SOURCES.parse(value)


SECRETS = t.Type(_SOURCES.title, _parse_all, _SOURCES.schema)

#: Permitted sources: kind of the source -> patterns.
SOURCES = t.mapped("|".join(KINDS), f"one of {', '.join(KINDS)}", t.listed(t.text(r"\S[^\0\n]*", "a pattern")))
