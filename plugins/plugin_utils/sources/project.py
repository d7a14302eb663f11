# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's project on the controller: the files that define its environment.

A requirements.txt is read as pip reads it, and then stands for a pyproject.toml: the environment is locked, built and
known by its key in the same way. What a pyproject.toml cannot say is in a table of its own, which
`pyenv/uv/resolve.py` reads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import MOST_BYTES, named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import (
    Recipe,
    Tree,
    no_variables,
    recipe,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import FURTHER
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.pip_settings import redact
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import normalised
from ansible_collections.rankzero.slurm.plugins.module_utils.store import tree as trees
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import ANYWHERE, Roots

if TYPE_CHECKING:
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot

# Lock files are generated and contain an entry for each file of each package.
MOST_LOCK_BYTES = 50_000_000
#: The option that names a requirements file.
OPTION = "environment.requirements"
#: How many files may include each other.
_MOST_FILES = 50
_COMMENT = re.compile(r"(^|\s+)#.*$")
_HASH = re.compile(r"\s--hash[=\s]\s*(\S+)")
_OPTION = re.compile(r"(?:^|(?<=\s))--?[A-Za-z][\w-]*")
_INCLUDES = re.compile(r"(?:(-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+)|(-[rc]))(\S.*)")
# A folder (or a wheel) as a package: `-e .`, `./sub[extra]`, `-e sub#egg=name`.
_FOLDER = re.compile(r"((?:-e|--editable)(?:\s*=\s*|\s+))?([\w.][^\s;#\[\]:@]*)(\[[\w,. -]+\])?(?:#egg=[\w.\[\]-]+)?")
# Folders and files that a uv.lock names, and their names in a pyproject.toml.
_LOCKED = re.compile(r'(?m)^source = \{ (?:editable|directory|path) = "([^"\n]+)" \}$')
_LOCAL = re.compile(r"(?ms)^\[tool\.uv\.sources.*?(?:^|[{,\s])(?:path|workspace)\s*=")
#: Where the texts of a requirements.txt stand among its folders: beside them, as if it were a folder of the project.
BESIDE = "requirements-txt"
_INDEX = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--trusted-host")
_NO_EFFECT = ("--require-hashes", "--prefer-binary")


@dataclass(frozen=True)
class _Wanted:
    """What is asked of an environment, whatever its mode."""

    mode: str
    torch: str
    extras: Sequence[str]
    python: str | None = None
    requirements: str | None = None


def project_recipe(folder: str, wanted: JsonObject, roots: Roots = ANYWHERE) -> Recipe:
    """The recipe alone, see `project_source`."""
    return project_source(folder, wanted, roots)[0]


def project_source(folder: str, wanted: JsonObject, roots: Roots = ANYWHERE) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe of the environment for the project in `folder`, and the files that it is from.

    These are its pyproject.toml, and its uv.lock if it has one; or the requirements file that `wanted` names.
    `wanted`: extras, python, torch, mode and the settings of the mode, as `recipe` takes them.
    Raises RankzeroError if the folder has no pyproject.toml, and for invalid values.
    """

    asked = record_of(_Wanted, wanted)

    def made(pyproject: str, lock: str | None, own: Sequence[Tree] = ()) -> Recipe:
        return recipe(pyproject, lock, asked.extras, asked.python, asked.torch, asked.mode, wanted, own)

    if asked.requirements:
        read = requirements(folder, asked.requirements, roots)
        if asked.extras:
            raise RankzeroError(
                "environment.extras: has no effect with environment.requirements. Write the packages into the file."
            )
        own = _trees(os.path.join(folder, BESIDE), [_bare(path) for path in read.folders], roots)
        return made(read.pyproject(), None, own), (*read.files, *(_own(folder, BESIDE, tree) for tree in own))
    for name in ("pyproject.toml", "uv.lock"):
        roots.check("environment.project", os.path.join(folder, name))
    pyproject = _text(os.path.join(folder, "pyproject.toml"))
    if pyproject is None:
        raise RankzeroError(
            f"environment.project: there is no pyproject.toml in {os.path.abspath(folder)}. "
            "Name the folder that has it, or a requirements.txt (environment.requirements), or set environment.mode to "
            "none."
        )
    lock = _text(os.path.join(folder, "uv.lock"), MOST_LOCK_BYTES)
    files = ("pyproject.toml", *(["uv.lock"] if lock is not None else []))
    if lock is None and _LOCAL.search(pyproject):
        raise RankzeroError(
            f"environment.project: pyproject.toml in {os.path.abspath(folder)} names packages of this machine (path or "
            "workspace in [tool.uv.sources]) and has no uv.lock beside it. Run `uv lock`, or name the folder of the "
            "workspace, which has its uv.lock."
        )
    places = dict.fromkeys(path for path in _LOCKED.findall(lock or "") if path != ".")
    own = _trees(folder, list(places), roots)
    return made(pyproject, lock, own), (*files, *(_own(folder, "", tree) for tree in own))


def pack_trees(project: str, wanted: Recipe, target: str) -> Recipe:
    """The same recipe with archives of its trees, which are written into the folder `target`. Raises RankzeroError."""
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import code

    base = project if wanted.lock is not None else os.path.join(project, BESIDE)
    packed = []
    for number, tree in enumerate(wanted.trees):
        snapshot = _snapshot(os.path.normpath(os.path.join(base, tree.path)))
        if snapshot.digest != tree.digest:
            raise RankzeroError(f"environment.project: {snapshot.src} changed meanwhile. Run again.")
        path = os.path.join(target, f"tree-{number}.tar.gz")
        with open(path, "wb") as stream:
            code.pack(snapshot, stream)
        packed.append(replace(tree, archive=path))
    return replace(wanted, trees=tuple(packed))


def _trees(base: str, paths: Sequence[str], roots: Roots) -> tuple[Tree, ...]:
    """The folders at these paths, which start at `base`. One that lies in another one is a part of it."""
    kept = sorted({os.path.normpath(path) for path in paths})
    kept = [path for path in kept if not any(_inside(path, other) for other in kept)]
    result = []
    for path in kept:
        place = os.path.normpath(os.path.join(base, path))
        roots.check("environment.project", place)
        if os.path.isabs(path) or not os.path.exists(place):
            raise RankzeroError(
                f"environment.project: the project names {path} as a package: "
                + ("write a path that starts at the project." if os.path.isabs(path) else f"there is no {place}.")
            )
        own = os.path.join(place, "pyproject.toml")
        if os.path.lexists(own):
            roots.check("environment.project", own)
            no_variables(own, named_text(own, "environment.project"))
        result.append(Tree(path, _snapshot(place).digest))
    return tuple(result)


def _bare(path: str) -> str:
    """A folder of a requirements.txt without its extras."""
    return re.sub(r"\[[^\]]*\]$", "", path)


def _inside(path: str, other: str) -> bool:
    return path != other and os.path.relpath(path, other).split(os.sep)[0] != os.pardir


def _snapshot(place: str) -> Snapshot:
    """The files of a folder, as of the code of a launch; of a file, it alone. Loaded only where there is one."""
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import code

    if os.path.isfile(place):
        folder, name = os.path.split(place)
        entry = trees.read_entry(folder, name)
        entries = (entry,) if entry else ()
        return code.Snapshot(folder, trees.digest(entries), entries)
    return code.take_snapshot(place)


def _own(project: str, base: str, tree: Tree) -> str:
    """A tree among the files that leave the machine: its path from the project."""
    return os.path.relpath(os.path.join(project, base, tree.path), project)


@dataclass
class Requirements:
    """What requirements files ask for. `files`: their paths, relative to the project; `hashes`: NAME sha256:DIGEST.

    `folders`: packages that are folders of the project, as paths that start at `BESIDE` in it.
    """

    packages: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def pyproject(self) -> str:
        """The same as a pyproject.toml. Comments, blank lines and the division into files change nothing in it."""
        text = '[project]\nname = "requirements-txt"\nversion = "0"\ndependencies = [\n'
        text += "".join(f"  {json.dumps(package)},\n" for package in self.packages) + "]\n"
        if self.constraints or self.hashes or self.folders:
            text += f"\n{FURTHER}\nconstraints = {json.dumps(self.constraints)}\nhashes = {json.dumps(self.hashes)}\n"
        if self.folders:
            text += f"folders = {json.dumps(self.folders)}\n"
        return text


def requirements(project: str, file: str, roots: Roots = ANYWHERE) -> Requirements:
    """Read a requirements file in the folder `project`, and the files that it includes.

    Raises RankzeroError with the file and the line of the first mistake.
    """
    result = Requirements()
    try:
        _read(project, os.path.normpath(file), result, roots, constraints=False)
    except RankzeroError as error:
        # A line that is quoted may be an address with a password.
        raise RankzeroError(redact(error.message)) from None
    if not result.packages and not result.folders:
        raise RankzeroError(f"{OPTION}: {file} names no package. Set environment.mode to none, or name another file.")
    return result


def _read(project: str, file: str, result: Requirements, roots: Roots, *, constraints: bool) -> None:
    path = os.path.join(project, file)
    roots.check(OPTION, path)
    try:
        text = named_text(path, OPTION)
    except FileNotFoundError:
        raise RankzeroError(f"{OPTION}: there is no {file} in {os.path.abspath(project)}") from None
    result.files.append(file)
    for number, line in _lines(text):
        where = f"{OPTION}: {file}:{number}:"
        included = _INCLUDES.fullmatch(line)
        local = None if included or constraints else _FOLDER.fullmatch(line)
        if local and (local[1] or local[2].startswith(".")):
            roots.check(OPTION, os.path.join(project, local[2]))
            if not os.path.exists(os.path.join(project, local[2])):
                raise RankzeroError(f"{where} there is no {local[2]} in {os.path.abspath(project)}. Correct `{line}`.")
            result.folders.append(os.path.normpath(os.path.join(os.pardir, local[2])) + (local[3] or ""))
            continue
        if included is None:
            _line(where, line, result, constraints=constraints)
            continue
        other = os.path.normpath(os.path.join(os.path.dirname(file), included[3].strip().strip("\"'")))
        bounds = constraints or "c" in (included[1] or included[2]).lstrip("-")[0]
        if len(result.files) >= _MOST_FILES:
            raise RankzeroError(f"{where} more than {_MOST_FILES} files include each other, the last one is {other}")
        if not os.path.isfile(os.path.join(project, other)):
            raise RankzeroError(f"{where} there is no {other} in {os.path.abspath(project)}. Correct `{line}`.")
        _read(project, other, result, roots, constraints=bounds)


def _lines(text: str) -> list[tuple[int, str]]:
    """The lines with their numbers: joined where one ends in a backslash, without comments and blank ones."""
    result: list[tuple[int, str]] = []
    began, so_far = 0, ""
    for number, line in enumerate([*text.lstrip("\ufeff").splitlines(), ""], 1):
        began = began or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            so_far += line[:-1].strip() + " "
            continue
        whole = _COMMENT.sub("", so_far + line.strip()).strip()
        result += [(began, whole)] if whole else []
        began, so_far = 0, ""
    return result


def _line(where: str, line: str, result: Requirements, *, constraints: bool) -> None:
    """Add one line that is no include. `where`: the beginning of an error."""
    # packaging comes with ansible-core. Imported late, as it takes time that only this file needs.
    from packaging.requirements import InvalidRequirement, Requirement

    if line in _NO_EFFECT:
        return
    if "${" in line:
        raise RankzeroError(f"{where} variables are not replaced. Write the value itself instead of `{line}`.")
    hashes = _HASH.findall(line)
    wanted = _HASH.sub("", line).strip()
    option = _OPTION.search(wanted)
    if option or wanted.startswith((".", "/", "git+", "http:", "https:", "file:")):
        raise RankzeroError(f"{where} {_refusal(wanted, option[0] if option else '')}")
    try:
        package = Requirement(wanted)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise RankzeroError(f"{where} `{wanted}` is not a requirement such as numpy>=1.26: {reason}") from error
    for digest in hashes:
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise RankzeroError(f"{where} {digest} is not a hash that can be checked. Write sha256 and 64 hex digits.")
        result.hashes.append(f"{normalised(package.name)} {digest}")
    (result.constraints if constraints else result.packages).append(wanted)


def _refusal(line: str, option: str) -> str:
    """The end of the sentence that refuses a line."""
    if option in _INDEX:
        build = re.search(r"/whl/(cpu|xpu|cu\d{2,3}|rocm[\d.]+)\b", line)
        if build:
            return f"{option} names an index of torch. Remove the line, and set environment.torch to {build[1]}."
        return (
            f"{option}: a package source is a setting of the machine that fetches packages. Write it into pip.conf or "
            "uv.toml there, and remove the line."
        )
    if (option in ("-e", "--editable") or line.startswith((".", "/", "file:"))) and "git+" not in line:
        return (
            f"`{line}` is not a folder by a path that starts at the project, such as ./sub or ../other, without a "
            "version or marker. Write that, or the package's version on an index."
        )
    if not option:
        name = re.search(r"[#&]egg=([\w.-]+)", line)
        return f"an address needs a name in front of it: {name[1] if name else 'NAME'} @ {line.partition('#')[0]}"
    return f"{option} is not supported here: remove it. Supported are requirements, -r, -c and --hash."


def _text(path: str, most: int = MOST_BYTES) -> str | None:
    try:
        return named_text(path, "environment.project", most)
    except FileNotFoundError:
        return None
