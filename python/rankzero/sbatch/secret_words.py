# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What in a script is a secret, by its name or its form. A value of one is never written or printed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: Parts of a name that say that its value is a secret: HF_TOKEN, WANDB_KEY, HUGGINGFACE_TOKEN_2, --api-key, dbPassword.
_PARTS = re.compile(
    r"(?:^|[_.-])(?:token|secrets?|passw(?:or)?d|passphrase|pass|pwd|key|apikey|credentials?|auth|authorization|bearer)"
    r"(?:[_.-]|\d|$)|(?:apikey|secretkey|accesskey|authtoken|password)$",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: The forms of tokens of known services, and any long word of hexadecimal digits.
_FORMS = re.compile(
    r"hf_\w{8,}|sk-[\w-]{12,}|gh[pousr]_\w{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abp]-[\w-]{10,}|AKIA[0-9A-Z]{12,}|"
    r"(?<![0-9A-Za-z/@:])[0-9a-f]{32,128}(?![0-9A-Za-z])|eyJ[\w-]{10,}\.[\w.-]{10,}|://[^/\s:@]+:[^/\s@]+@"
)
#: A name and the word after it, which may be the name of the next one. In JSON the name stands in quotes.
_ASSIGNED = re.compile(
    r"(?<![\w$])(-{0,2}[A-Za-z_][\w.-]*)"
    r"(?=(?:=|\\?[\"']\s*:\s*|:\s+|\s+)\\?[\"']?([^\s\"'`;|&)=,][^\s\"'`;|&),]*))"
)
_LOGIN = re.compile(r"\blogin\b(?:\s+--?[\w-]+)*[\s=]+[\"']?([^\s\"'`;|&)-][^\s\"'`;|&)]*)")
_VARIABLE = re.compile(r"(?<!\\)\$\{?([A-Za-z_]\w*)")
_HANDED_ON = re.compile(r"\"?(?:--export\b|[A-Za-z_]\w*=)")
#: Shorter values are words of every text.
_SHORTEST = 6


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable or an option is a secret by its name."""
    return _PARTS.search(_HUMP.sub("_", name)) is not None


def values_in(text: str) -> set[str]:
    """The values in a script, comments included, that may be secrets."""
    values = {match[0] for match in _FORMS.finditer(text)}
    for match in _ASSIGNED.finditer(text):
        if is_secret_name(match[1].lstrip("-")):
            values.add(match[2].rstrip("\\"))
    values |= {match[1] for match in _LOGIN.finditer(text)}
    return {value for value in values if len(value) >= _SHORTEST and not value.startswith(("$", "--"))}


def hidden(text: str, secrets: Iterable[str]) -> str:
    """A text without the values of secrets."""
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "...")
    return _FORMS.sub("...", text)


def values_of(environment: Iterable[tuple[str, str]]) -> set[str]:
    """The values of variables that are secrets by their names."""
    return {value for name, value in environment if len(value) >= _SHORTEST and is_secret_name(name)}


def secret_variables(words: Iterable[str]) -> set[str]:
    """The secret variables that bash puts into words as they are written. A word that only hands one on (NAME=$NAME)
    has none.
    """
    given = (word for word in words if not word.startswith("'") and not _HANDED_ON.match(word))
    return {name for word in given for name in _VARIABLE.findall(word) if is_secret_name(name)}


def secret_words(words: list[str]) -> Iterator[str]:
    """The options and words of a command whose values are secrets: `--token VALUE`, `--key=VALUE`, and known forms.
    Only names are returned.
    """
    for word, following in zip(words, [*words[1:], ""]):
        name, equals, value = word.partition("=")
        given = value if equals else following if name.startswith("-") else ""
        if given and not given.startswith("--") and is_secret_name(name.lstrip("-")):
            yield name
        elif _FORMS.search(word):
            yield "a word that has the form of a token"
