# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build an environment on the host that owns the store: locked, in a fresh folder, with hashes, verified, renamed.

Ranks never build. An environment appears completely or not at all, because its folder gets its name last. If two
builders build at once, the first rename wins. Where this host cannot reach a package source, `Needs` tells the
controller what to send.
"""

from __future__ import annotations

import glob
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own_below
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import interpreter, sealed
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import (
    EnvironmentRecord,
    present,
    write_record,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import Python, choose
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import (
    Recipe,
    environment_path,
    text_sha256,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.request import Brought
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.trees import absent, lay_out
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings, uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import lock_key, lock_path, requirement_lines
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.resolve import Platform, keep_lock, resolve
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.tool import bootstrap_uv, find_uv, uv_from_wheel
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.verify import (
    Installed,
    content_digest,
    import_probe,
    verify,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import WheelFile
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.workplace import disk_folder
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    fresh_folder,
    make_read_only,
    publish,
    remove,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

# How long (seconds) a builder waits for another builder of the same environment. A large one takes minutes on a slow
# file system.
_WAIT = 1800.0


@dataclass(frozen=True)
class Request:
    """What to build, and the available means. `hint`: the controller's uv, which this host may or may not see."""

    recipe: Recipe
    store_root: str
    download: str = "auto"
    uv: str | None = None
    hint: str | None = None
    controller_sources: str | None = None
    brought: Brought | None = None
    meter: Meter = field(default_factory=Meter, compare=False)


@dataclass(frozen=True)
class Needs:
    """What this host lacks. First the `reason` and facts that decide which wheels fit; later the names of `files`.

    `trees`: only the archives of the project's own folders are missing.
    """

    reason: str
    python: JsonObject = field(default_factory=dict)  # markers, libc and target of pythons.Python, as JSON
    uv: bool = False
    lock: str | None = None
    lock_key: str | None = None
    files: Sequence[str] = ()
    trees: bool = False


def build(request: Request) -> EnvironmentRecord | Needs:
    """Build the environment and return its env.json, or what is needed to build it. Raises RankzeroError."""
    environ = dict(os.environ)
    python = _python(request, environ)
    if absent(request.recipe.trees):
        return Needs("the project's own folders are not on this host", trees=True)
    if request.brought is not None:
        return _from_brought(request, request.brought, python, environ)
    if request.download == "controller":
        return _needs(request, python, environ, "download: is controller")
    try:
        return _from_sources(request, python, environ)
    except uv.Unreachable as error:
        if request.download == "head":
            raise
        return _needs(request, python, environ, error.message)


def buildable(recipe: Recipe, store_root: str) -> None:
    """Raise RankzeroError for problems that would stop a build and can be detected without one."""
    if recipe.mode == "sealed":
        python = interpreter.pick(recipe, store_root, os.environ)
        sealed.check_tools(python)
    else:
        choose(recipe.pyproject, recipe.python)


def _python(request: Request, environ: Mapping[str, str]) -> Python:
    """The interpreter to build on. Raises RankzeroError, also for problems that would stop the build at its end."""
    wanted = request.recipe
    if wanted.mode != "sealed":
        return choose(wanted.pyproject, wanted.python)
    python = interpreter.pick(wanted, request.store_root, environ)
    if python is None:
        settings = pip_settings.uv_environment(pip_settings.read_pip_settings(environ), environ)
        tool = find_uv(request.store_root, request.uv, request.hint, settings)
        if tool is None:
            raise RankzeroError(
                "environment.interpreter: managed needs uv on this host to fetch a Python. Install uv there, or choose "
                "copied or node."
            )
        python = interpreter.fetch(wanted, request.store_root, tool)
    sealed.check_tools(python)
    return python


def _from_sources(request: Request, python: Python, environ: Mapping[str, str]) -> EnvironmentRecord:
    """Resolve and install from the package sources that this host reaches. Raises RankzeroError."""
    pip = pip_settings.read_pip_settings(environ)
    settings = pip_settings.uv_environment(pip, environ)
    tool = find_uv(request.store_root, request.uv, request.hint, settings) or bootstrap_uv(
        request.store_root, python, environ
    )
    identity = pip_settings.identity(pip, environ)
    key = lock_key(request.recipe, python.minor, python.target(), python.markers["platform_machine"], identity)

    def install(folder: str, work: str) -> dict[str, str]:
        lock = os.path.join(work, "pylock.toml")
        kept = lock_path(request.store_root, key)
        if request.recipe.lock is None and os.path.isfile(kept) and is_own_below(request.store_root, kept):
            shutil.copyfile(kept, lock)
        else:
            # The controller may try afterwards, so do not retry often.
            haste = {"UV_HTTP_RETRIES": "1"} if request.download == "auto" else {}
            resolver = replace(tool, environment={**haste, **settings})
            request.meter.begin("resolving")
            resolve(resolver, request.recipe, pip, work, lock, Platform(python.path, (), python.target()))
            if request.recipe.lock is None:
                keep_lock(kept, lock)
        _installing(request, folder, _locked(lock))
        tool.run(
            ["pip", "install", "--quiet", "--python", f"{folder}/bin/python", "--link-mode", "copy", "-r", lock]
            + pip_settings.uv_options(pip),
            work,
            "installing the packages",
        )
        shutil.copyfile(lock, os.path.join(folder, "pylock.toml"))
        return {"key": key, "sources": identity}

    return _make(request, python, tool, "head", install)


def _from_brought(
    request: Request, brought: Brought, python: Python, environ: Mapping[str, str]
) -> EnvironmentRecord | Needs:
    """Install from verified wheel files, without a network. Raises RankzeroError."""
    settings = {**pip_settings.uv_environment(pip_settings.PipSettings(), environ), "UV_OFFLINE": "1"}
    wanted = [*brought.wheels, *([brought.tool] if brought.tool else [])]
    places = {wheel.filename: _verified(wheel, brought.folder) for wheel in wanted}
    missing = sorted(name for name, place in places.items() if place is None)
    if missing:
        return Needs("these wheels are not visible on this host", files=missing)
    tool = find_uv(request.store_root, request.uv, request.hint, settings)
    if tool is None and brought.tool:
        tool = uv_from_wheel(request.store_root, str(places[brought.tool.filename]), brought.tool, settings)
    if tool is None:
        return _needs(request, python, environ, "this host has no uv")

    def install(folder: str, work: str) -> dict[str, str]:
        house = os.path.join(work, "wheels")
        os.mkdir(house)
        for wheel in brought.wheels:
            os.symlink(str(places[wheel.filename]), os.path.join(house, wheel.filename))
        pins = [(wheel.name, wheel.version, wheel.sha256) for wheel in brought.wheels]
        lines = os.path.join(work, "requirements.txt")
        _write(lines, requirement_lines(pins))
        if pins:
            _installing(request, folder, len(pins))
            # A temporary cache: each file is written once, and no older cache has to be trusted.
            tool.run(
                ["pip", "install", "--quiet", "--python", f"{folder}/bin/python", "--offline", "--no-index"]
                + ["--find-links", house, "--no-deps", "--require-hashes", "-r", lines]
                + ["--link-mode", "hardlink", "--cache-dir", os.path.join(work, "cache")],
                work,
                "installing the packages",
            )
        _write(os.path.join(folder, "pylock.toml"), brought.lock)
        if request.recipe.lock is None:
            keep_lock(lock_path(request.store_root, brought.lock_key), os.path.join(folder, "pylock.toml"))
        return {"key": brought.lock_key, "sources": "controller"}

    return _make(request, python, tool, "controller", install)


def _make(
    request: Request,
    python: Python,
    tool: uv.Uv,
    downloaded_by: str,
    install: Callable[[str, str], dict[str, str]],
) -> EnvironmentRecord:
    """The steps common to all sources: `install(environment, work folder)` fills it and returns data about its lock."""
    recipe = request.recipe
    target = environment_path(request.store_root, recipe.key)
    began = time.monotonic()
    request.meter.begin("preparing")
    with ExitStack() as stack:
        stack.enter_context(hold(f"{request.store_root}/locks/environment.{recipe.key}.lock", _WAIT))
        there = present(target)
        if there is not None:
            return there  # another builder held the lock until now
        fresh = stack.enter_context(fresh_folder(target))
        site = (stack.enter_context(disk_folder(recipe.key)) if recipe.mode == "sealed" else None) or fresh
        folder, work = os.path.join(site, "environment"), os.path.join(site, "work")
        os.mkdir(work)
        project = lay_out(recipe, work)
        tool.run(["venv", "--quiet", "--relocatable", "--python", python.path, folder], work, "making the environment")
        lock = install(folder, project)
        request.meter.begin("verifying")
        packages = verify(folder, python.minor)
        request.meter.begin("packing" if recipe.mode == "sealed" else "compiling")
        manifest: EnvironmentRecord = {
            "format": 1,
            "key": recipe.key,
            "mode": recipe.mode,
            "digest": content_digest(packages),
            "inputs": {
                "pyproject": text_sha256(recipe.pyproject),
                "uv_lock": None if recipe.lock is None else text_sha256(recipe.lock),
            },
            "python": {"path": python.path, "version": python.markers["python_full_version"], "libc": python.libc},
            "machine": python.markers["platform_machine"],
            "extras": list(recipe.extras),
            "torch": recipe.torch,
            "packages": {package.name: package.version for package in packages},
            "files": sum(package.files for package in packages),
            "bytes": sum(package.bytes for package in packages),
            "lock": {**lock, "sha256": file_sha256(os.path.join(folder, "pylock.toml"))},
            "uv": tool.version,
            "downloaded_by": downloaded_by,
        }
        finish = {"venv": _finish_venv, "sealed": _finish_sealed}[recipe.mode]
        finished, further = finish(recipe, python, packages, folder, fresh)
        manifest.update(further)
        manifest["seconds"] = round(time.monotonic() - began, 1)
        write_record(finished, manifest)
        make_read_only(finished)
        if os.path.lexists(target):
            remove(target)  # its Python or its file is missing, so nobody can be using it
        if not publish(finished, target):
            return present(target) or manifest
        return manifest


def _installing(request: Request, folder: str, packages: int) -> None:
    """Count the packages that uv has installed so far."""

    def installed() -> int:
        sites = glob.glob(os.path.join(folder, "lib", "python*", "site-packages"))
        return sum(name.endswith(".dist-info") for site in sites for name in os.listdir(site))

    request.meter.begin("installing", files=packages, unit="packages", measure=installed)


def _locked(lock: str) -> int:
    """The number of packages in a pylock.toml. Some may be for other platforms."""
    return sum(line.strip() == "[[packages]]" for line in text_of(lock, MOST_LIST_BYTES).split("\n"))


# The result of finishing a verified venv: the folder to publish, and further fields of env.json.
Finished = tuple[str, EnvironmentRecord]


def _finish_venv(recipe: Recipe, python: Python, packages: Sequence[Installed], folder: str, fresh: str) -> Finished:
    _compile(folder)
    return folder, {"import_warnings": import_probe(f"{folder}/bin/python", packages)}


def _finish_sealed(recipe: Recipe, python: Python, packages: Sequence[Installed], folder: str, fresh: str) -> Finished:
    site = os.path.dirname(folder)
    tree, finished = os.path.join(site, "tree"), os.path.join(fresh, "sealed")
    remove_tree(os.path.join(site, "work"))  # its cache contains hard links to the same files
    os.mkdir(finished)
    origin = sealed.assemble(folder, tree, python, recipe)
    written = sealed.write(tree, finished, recipe.settings["compression"])
    # After the file is written, so that it does not contain files that packages write on import.
    warnings = import_probe(f"{tree}/bin/python", packages)
    return finished, {
        "digest": written["sha256"],
        "import_warnings": warnings,
        "sealed": {**written, "interpreter": origin},
    }


def _needs(request: Request, python: Python, environ: Mapping[str, str], reason: str) -> Needs:
    lock = key = None
    if request.controller_sources is not None:
        machine = python.markers["platform_machine"]
        key = lock_key(request.recipe, python.minor, python.target(), machine, request.controller_sources)
        try:
            kept = lock_path(request.store_root, key)
            lock = text_of(kept, MOST_LIST_BYTES) if is_own_below(request.store_root, kept) else None
        except OSError:
            lock = None
    target = python.target()
    facts = {"markers": python.markers, "libc": python.libc, "target": asdict(target) if target else None}
    has_uv = find_uv(request.store_root, request.uv, request.hint, environ) is not None
    return Needs(reason, python=facts, uv=not has_uv, lock=lock, lock_key=key)


def _verified(wheel: WheelFile, folder: str | None) -> str | None:
    """The path of exactly that wheel on this host: in `folder`, or at the controller's path; None if it is missing."""
    for path in (os.path.join(folder, wheel.filename) if folder else None, wheel.path):
        try:
            if path and os.path.getsize(path) == wheel.size and file_sha256(path) == wheel.sha256:
                return os.path.realpath(path)
        except OSError:
            continue
    return None


def _compile(folder: str) -> None:
    """Byte-compile everything: the folder will be read-only, and thousands of ranks would each compile it again.

    The .pyc files use unchecked content hashes, so that a copy with other times stays valid. Files that do not compile
    (templates, tests for older Pythons) are no error.
    """
    words = [f"{folder}/bin/python", "-I", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    children.run([*words, os.path.join(folder, "lib")], child_environment(os.environ), cwd="/")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
