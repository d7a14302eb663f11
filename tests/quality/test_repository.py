# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""House rules about files: what may not be committed, how long a file gets, what belongs together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository import CACHE, ROOT, bullet_list, files, load_yaml, plugin_names, read, run, tracked_files

LINE_LIMIT = 400
#: Files that may be longer, each with the reason why it is one room and not several.
LONG_FILES = {
    "COPYING": "the text of the licence",
    "contributing/extending.md": "one worked addition of each kind, which test_extending.py applies",
    "docs/job-spec.md": "generated: one row a field",
    "docs/playbooks.md": "generated: one row a variable",
    "plugins/module_utils/diagnosis/signatures/compiled.py": "generated: all failure families",
    "tests/unit/diagnosis/unseen.py": "a table: one row a wording",
}
GENERATED_OR_DATA = re.compile(
    r"^(tests/golden/|tests/.*/recorded/|CHANGELOG\.rst|changelogs/changelog\.yaml|.*\.(txt|json)$)"
)

#: Spelled so that this file does not contain what it looks for.
REGISTRY_HOSTS = re.compile(
    r"(?:pypi|pythonhosted|galaxy\.ansible|npmjs|\.docker|deb\.debian|download\.pytorch)[.](?:org|com|io)"
)
MACHINE_PATHS = re.compile(r"(?:/[w]ork/(?:main|shared)|/[t]mp/rz|/[o]pt/(?:wheels|pypi)|/[r]oot/[.]pyenv)")
UNFINISHED = re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX)\b|[N]otImplementedError|[a]ssert True\b|pytest[.]skip\(\)")
#: The builtin of bash as a command: not in a comment, and not as an argument of another program.
WAIT_COMMAND = re.compile(r"^[^#]*?(?:^|[;&|({!]|\b(?:do|then|else)\b)\s*(?:(?:builtin|command)\s+)?[w]ait(?:\s|$)")
LOCK_FILES = {"uv.lock", "pylock.toml", "poetry.lock", "package-lock.json", "Pipfile.lock"}
SPDX = "SPDX-License-Identifier: GPL-3.0-or-later"


def texts() -> Iterator[tuple[str, str]]:
    """Every tracked text file with its content."""
    for path in tracked_files():
        content = (ROOT / path).read_bytes()
        if b"\0" not in content[:8192]:
            yield path, content.decode("utf-8", errors="replace")


def lines_matching(pattern: re.Pattern[str], paths: tuple[str, ...] = ("",)) -> list[str]:
    """`file:line: text` for each line of the tracked files below `paths` that the pattern finds."""
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path, text in texts()
        if path.startswith(paths)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_lock_file_is_committed() -> None:
    locks = [path for path in tracked_files() if Path(path).name in LOCK_FILES]
    assert not locks, "lock files carry the address of an index; they belong in the store:" + bullet_list(locks)


def test_no_package_registry_is_named() -> None:
    found = lines_matching(REGISTRY_HOSTS)
    assert not found, "where packages come from is a setting of the machine:" + bullet_list(found)


def test_no_path_of_a_developer_machine() -> None:
    own = [re.escape(f"{path}/") for path in (str(ROOT), str(Path.home())) if len(path) > 5]
    found = lines_matching(re.compile("|".join([MACHINE_PATHS.pattern, *own])))
    assert not found, bullet_list(found)


def test_nothing_is_left_unfinished() -> None:
    """Tables of other programs' messages may hold such words."""
    tables = ("tests/unit/diagnosis/", "plugins/module_utils/diagnosis/families/")
    found = [line for line in lines_matching(UNFINISHED) if not line.startswith(tables)]
    assert not found, bullet_list(found)


def test_no_bash_of_the_runtime_waits_for_a_child() -> None:
    """Bash 5.2 loses the end of a child that comes together with a trapped signal, and would wait for it for ever. The
    conductor (runtime/job) does the waiting.
    """
    places = lines_matching(WAIT_COMMAND, ("plugins/runtime/", "plugins/plugin_utils/jobs/templates/"))
    assert not [place for place in places if place.partition(":")[0].endswith((".sh", ".j2"))], places


def test_no_file_outgrows_its_room() -> None:
    long = [
        f"{path} has {count} lines; split it, or give the reason in LONG_FILES"
        for path, text in texts()
        if (count := text.count("\n")) > LINE_LIMIT and path not in LONG_FILES and not GENERATED_OR_DATA.match(path)
    ]
    assert not long, bullet_list(long)


def test_every_reason_for_a_long_file_is_needed() -> None:
    needless = [path for path in LONG_FILES if path not in tracked_files() or read(path).count("\n") <= LINE_LIMIT]
    assert not needless, bullet_list(needless)


def test_programs_state_their_licence() -> None:
    """Ours do. The examples are what a repository of a user looks like; its licence is the user's."""
    programs = [path for path in tracked_files() if path.endswith((".py", ".sh")) and not path.startswith("examples/")]
    silent = [path for path in programs if read(path).strip() and SPDX not in read(path)[:800]]
    assert not silent, bullet_list(silent)


def test_what_is_run_by_name_is_executable() -> None:
    """Scripts of the checkout are started by path. Plugins never are: a mode bit on them is a mistake."""
    wrong = []
    for path in files("scripts/") + files(".ci/"):
        starts = read(path).startswith("#!")
        if starts != os.access(ROOT / path, os.X_OK):
            wrong.append(f"{path}: {'has a #! line and is not executable' if starts else 'is executable without #!'}")
    wrong += [f"{path}: a plugin is executable" for path in files("plugins/") if os.access(ROOT / path, os.X_OK)]
    assert not wrong, bullet_list(wrong)


def test_playbooks_can_be_run_by_their_full_name() -> None:
    playbooks = files("playbooks/", ".yml")
    wrong = [path for path in playbooks if path.count("/") == 1 and not Path(path).stem.isidentifier()]
    assert not wrong, "ansible-playbook rankzero.slurm.NAME needs an identifier:" + bullet_list(wrong)


def test_every_controller_half_has_a_module() -> None:
    orphans = sorted(set(plugin_names("action")) - set(plugin_names("modules")))
    assert not orphans, "an action plugin is documented by the module of the same name:" + bullet_list(orphans)


ROLES = sorted({path.split("/")[1] for path in files("roles/")})


@pytest.mark.parametrize("role", ROLES)
def test_role_arguments_equal_the_defaults(role: str) -> None:
    specs = load_yaml(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]
    options = {name: option for spec in specs.values() for name, option in spec.get("options", {}).items()}
    defaults = load_yaml(f"roles/{role}/defaults/main.yml") or {}
    optional = {name for name, option in options.items() if not option.get("required")}
    problems = [f"{name} is documented and has no default" for name in optional - defaults.keys()]
    problems += [f"{name} has a default and is not documented" for name in defaults.keys() - options.keys()]
    for name in options.keys() & defaults.keys():
        value, option = defaults[name], options[name]
        computed = isinstance(value, str) and "{{" in value
        if computed and option.get("default", value) != value:
            problems.append(f"{name}: documented default {option['default']!r}, real default {value!r}")
        elif not computed and value not in (None, "", [], {}) and option.get("default") != value:
            problems.append(f"{name}: documented default {option.get('default')!r}, real default {value!r}")
        elif not computed and option.get("default", value) != value:
            problems.append(f"{name}: documented default {option['default']!r}, real default {value!r}")
        if option.get("required"):
            problems.append(f"{name} is required and has a default")
    assert not problems, bullet_list(sorted(problems))


def test_the_generated_reference_is_fresh() -> None:
    """The field table is the source; fragment, page and schema are written from it."""
    run("python", "scripts/generate_reference.py", "--check", env={"PYTHONPATH": str(CACHE / "collections")})
