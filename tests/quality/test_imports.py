# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The floors of the house: who may import whom. Read from the source, so that no test data is needed."""

from __future__ import annotations

import ast
import re
import sys

import pytest

from tests.repository import (
    COLLECTION,
    bullet_list,
    files,
    imported_modules,
    in_collection,
    load_yaml,
    read,
    syntax_tree,
)

MODULE_UTILS = "plugins.module_utils"
#: Says how the controller imports the libraries. It is no part of a shipped module.
CONTROLLER = "plugins/plugin_utils/__init__.py"
#: The only file of module_utils that knows Ansible.
EDGE = "plugins/module_utils/core/ansible.py"
#: Folder of plugins/ -> its rooms -> the other rooms of that folder that each may use (contributing/rooms.yml).
ROOMS: dict[str, dict[str, set[str]]] = {
    folder: {
        room["room"]: set(room["imports"])
        for room in load_yaml("contributing/rooms.yml")
        if room.get("of", "module_utils") == folder
    }
    for folder in ("module_utils", "plugin_utils", "runtime")
}
#: Files beside the rooms, each with the reason.
BESIDE_ROOMS = {"plugins/runtime/owner.py": "a program of a user may call it by this path (docs/checkpoints.md)"}
#: What starts a process. PURE rooms decide, and others act.
PURE = {"spec", "plan"}
PROCESSES = {"subprocess", "multiprocessing", "pty", "socket", "asyncio"}
#: What a shipped module cannot do: Ansible packs what it finds by reading static imports.
DYNAMIC = {"importlib", "pkgutil", "pkg_resources", "runpy", "imp"}
#: The first is no part of a shipped module: its text is sent, and it imports the others. The second loads what is none.
IMPORTERS = ("plugins/module_utils/core/module_cache.py", "plugins/module_utils/watch/checker.py")

#: Signatures that may say it, each with the reason.
ANY = {
    "actions/modules.py call_module": "Ansible's action, of which any may call a module",
    "actions/modules.py checked": "options of any type, as Ansible converts them",
    "actions/plain.py plain": "what a user has written, of any shape",
    "waits/reconnect.py master_is_gone": "Ansible's connection, of which any plugin may be",
    "screen/login.py advice": "as master_is_gone",
    "screen/login.py shared_socket": "as master_is_gone",
    "waits/reconnect.py retried": "as master_is_gone",
    "waits/waiting.py connection": "as master_is_gone",
    "actions/modules.py interpreter": "Ansible's action, for its templates",
    "jobs/pipeline.py stages": "as plain",
    "logs/redact.py document": "a document of any shape",
    "core/module_cache.py create_module": "Python's own spec of a module",
    "core/module_cache.py find_spec": "as create_module",
    "core/module_cache.py run": "the call that the controller sent, with options of any type",
    "spec/fields.py default": "the default of any option",
    "spec/fields.py meta": "what dataclasses keeps for a field",
    "spec/fields.py option": "as dataclasses.field, whose result stands where a value of any type does",
    "spec/fields.py section": "as option",
    "spec/sections/sweep.py findings": "the whole spec, of which this section is a part and which it cannot import",
    "spec/slurm_options.py given": "the value of any option",
    "jobs/prepare.py secret_lines": "a value of Ansible's variables",
    "sources/documents.py json_document": "as plain",
    "sources/documents.py text_document": "as plain",
    "sources/documents.py typed_document": "as plain",
    "dataset/sources/base.py read_blocks": "a file, a pipe, or as open_url",
    "store/http.py open_url": "urllib's own answer, of one class for each scheme",
}

PLUGIN_FILES = files("plugins/", ".py")
LIBRARY = files("plugins/module_utils/", ".py")
PROGRAMS = [*files("plugins/runtime/", ".py"), *files("playbooks/files/", ".py")]
CLUSTER_SIDE = [*LIBRARY, *files("plugins/modules/", ".py"), *PROGRAMS]
CONTROLLER_ONLY = ("plugins.plugin_utils", "plugins.action", "plugins.callback", "plugins.filter", "plugins.lookup")


def room_of(dotted: str) -> tuple[str, str] | None:
    """Folder and room of a module, given as `plugins.module_utils.spec.job`; None for a file that is in no room."""
    _plugins, folder, room, *_file = [*dotted.split("."), "", ""]
    return (folder, room) if room in ROOMS.get(folder, ()) else None


def module_of(name: str, path: str) -> str | None:
    """What a file imports, as `plugins.module_utils.spec.job`; None for anything that is not ours."""
    if path.startswith("plugins/runtime/") and name.split(".")[0] in ROOMS["runtime"]:
        return f"plugins.runtime.{name}"
    return in_collection(name)


def leaves_room(own: tuple[str, str] | None, other: tuple[str, str] | None) -> str | None:
    """Why a file of one room may not import a file of another; None where it may."""
    if own is None or other is None or own == other or own[0] != other[0] or other[1] in ROOMS[own[0]][own[1]]:
        return None
    return f"the room {own[1]} may use {sorted(ROOMS[own[0]][own[1]]) or 'no other room'}"


def forbidden_imports(path: str) -> list[str]:
    """Every import in one file that its floor does not allow, as `file:line imports X: why not`."""
    own_room = room_of(path.removesuffix(".py").replace("/", "."))
    library, module, runtime = (path.startswith(f"plugins/{kind}/") for kind in ("module_utils", "modules", "runtime"))
    problems = []
    for line, name in imported_modules(path):
        top = name.split(".")[0]
        ours = in_collection(name)
        reason = None
        if name.startswith("."):
            reason = "imports are absolute"
        elif ours and library and not ours.startswith(f"{MODULE_UTILS}."):
            reason = "module_utils imports nothing above itself"
        elif ours and module and not ours.startswith(f"{MODULE_UTILS}."):
            reason = "a module imports module_utils only"
        elif ours and runtime:
            reason = "the runtime runs where the collection is not"
        elif ours and (outside := leaves_room(own_room, room_of(ours))):
            reason = outside
        elif ours == f"{MODULE_UTILS}.core.ansible" and library:
            reason = "the library raises; only modules use the edge"
        elif top == "ansible" and library and path != EDGE:
            reason = f"only {EDGE} knows Ansible"
        elif top == "ansible" and (library or module) and not name.startswith("ansible.module_utils"):
            reason = "only ansible.module_utils travels to the cluster"
        elif runtime and top in ROOMS["runtime"]:
            reason = leaves_room(own_room, room_of(f"plugins.runtime.{name}"))
        elif runtime and top in ("torch", "yaml"):
            reason = None  # where the job brings it: the exchange between nodes, and results in YAML
        elif top not in sys.stdlib_module_names | {"ansible", "ansible_collections"} and (library or module or runtime):
            reason = "the cluster has the standard library only"
        elif top == "ansible" and runtime:
            reason = "the runtime runs where Ansible is not"
        elif top == "ansible_collections" and not ours:
            reason = "the collection depends on no other"
        elif top in DYNAMIC and (library or module):
            reason = "Ansible ships only what static imports name"
        elif top in PROCESSES and own_room and own_room[1] in PURE:
            reason = f"{own_room[1]} decides and starts no process"
        if reason:
            problems.append(f"{path}:{line} imports {name}: {reason}")
    return problems


def test_every_import_stays_on_its_floor() -> None:
    assert LIBRARY, "no file of module_utils was found: this test would pass on anything"
    problems = [problem for path in PLUGIN_FILES for problem in forbidden_imports(path)]
    assert not problems, bullet_list(problems)


def test_library_calls_no_dynamic_import() -> None:
    calls = [
        f"{path}:{node.lineno} calls {node.func.id}"
        for path in LIBRARY
        if path not in IMPORTERS
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("__import__", "exec")
    ]
    assert not calls, bullet_list(calls)


def test_every_room_is_known_and_every_file_is_in_a_room() -> None:
    for folder, rooms in ROOMS.items():
        paths = set(files(f"plugins/{folder}/", ".py")) - set(BESIDE_ROOMS)
        there = {path.split("/")[2] for path in paths} - {"__init__.py"}
        assert there == set(rooms), f"contributing/rooms.yml and plugins/{folder} differ: {sorted(there ^ set(rooms))}"
        unknown = {used for uses in rooms.values() for used in uses} - set(rooms)
        assert not unknown, f"contributing/rooms.yml names rooms that do not exist: {sorted(unknown)}"


def test_every_permission_is_used() -> None:
    """What no file needs is taken out of contributing/rooms.yml, so that the table says how the house is built."""
    used = {
        (own, other)
        for path in PLUGIN_FILES
        if (own := room_of(path.removesuffix(".py").replace("/", ".")))
        for _line, name in imported_modules(path)
        if (other := room_of(module_of(name, path) or ""))
    }
    unused = [
        f"{folder}: {room} imports no file of {other}"
        for folder, rooms in ROOMS.items()
        for room, others in rooms.items()
        for other in sorted(others)
        if ((folder, room), (folder, other)) not in used
    ]
    assert not unused, bullet_list(unused)


def test_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for path in PLUGIN_FILES:
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        graph[name] = {ours for _, imported in imported_modules(path) if (ours := module_of(imported, path))}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name in done:
            return
        for imported in sorted(graph.get(name, ())):
            visit(imported, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


def newer_grammar(path: str) -> str | None:
    """Where a file uses grammar that came after Python 3.9, as `file:line: what the parser says`."""
    try:
        ast.parse(read(path), path, feature_version=(3, 9))
    except SyntaxError as error:
        return f"{path}:{error.lineno}: {error.msg}"
    return None


def test_what_runs_on_the_cluster_is_python_3_9() -> None:
    assert set(CLUSTER_SIDE) > set(LIBRARY) and PROGRAMS, "a kind of file was not found: this would pass on anything"
    newer = [problem for path in CLUSTER_SIDE if (problem := newer_grammar(path))]
    assert not newer, bullet_list(newer)


def test_newer_grammar_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "read", lambda _path: "match 1:\n    case 1:\n        pass\n")
    problem = newer_grammar("plugins/modules/x.py")
    assert problem and problem.startswith("plugins/modules/x.py:3: ")


def annotation_problem(path: str) -> str | None:
    """Python 3.9 cannot evaluate `str | None`: only the future import makes such annotations harmless."""
    text = read(path)
    if path.endswith("__init__.py") and path != CONTROLLER:
        return f"{path} must be empty: Ansible ships it with every module below it" if text.strip() else None
    notes = [node.annotation for node in ast.walk(syntax_tree(path)) if isinstance(node, (ast.AnnAssign, ast.arg))]
    # What a Python of 3.6 reads (tests/unit/runtime/test_no_python.py) has strings, and plain types.
    harmless = ("bool", "bytes", "float", "int", "str")
    evaluated = [note for note in notes if note and not isinstance(note, ast.Constant)]
    annotated = any(getattr(note, "id", "") not in harmless for note in evaluated)
    if annotated and "from __future__ import annotations" not in text:
        return f"{path} lacks `from __future__ import annotations`"
    return None


def test_annotations_are_not_evaluated() -> None:
    problems = [problem for path in PLUGIN_FILES if (problem := annotation_problem(path))]
    assert not problems, bullet_list(problems)


@pytest.mark.parametrize(
    ("path", "source", "reason"),
    [
        ("plugins/module_utils/plan/x.py", "import yaml", "standard library only"),
        ("plugins/module_utils/plan/x.py", "import subprocess", "starts no process"),
        ("plugins/module_utils/plan/x.py", f"import {COLLECTION}.plugins.module_utils.slurm.y", "room plan may use"),
        ("plugins/plugin_utils/jobs/x.py", f"import {COLLECTION}.plugins.plugin_utils.screen.y", "room jobs may use"),
        ("plugins/plugin_utils/sources/x.py", f"import {COLLECTION}.plugins.plugin_utils.jobs.y", "no other room"),
        ("plugins/module_utils/slurm/x.py", "from ansible.module_utils.basic import AnsibleModule", "knows Ansible"),
        ("plugins/module_utils/core/x.py", f"import {COLLECTION}.plugins.plugin_utils.y", "nothing above itself"),
        ("plugins/module_utils/core/x.py", "def f():\n    import pkgutil", "static imports"),
        ("plugins/modules/x.py", "from ..module_utils import errors", "absolute"),
        ("plugins/modules/x.py", "from ansible.plugins.action import ActionBase", "travels"),
        ("plugins/action/x.py", "import ansible_collections.a.b.plugins.module_utils.c", "depends on no other"),
        ("plugins/runtime/x.py", "from ansible.module_utils.basic import AnsibleModule", "Ansible is not"),
        ("plugins/runtime/core/x.py", "from artifact import verdict", "room core may use"),
        ("plugins/runtime/core/x.py", "import requests", "standard library only"),
    ],
)
def test_a_forbidden_import_is_seen(path: str, source: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.repository.read", lambda _path: source)
    (problem,) = forbidden_imports(path)
    assert reason in problem


#: The only file that starts git: what git executes is a matter of its environment and configuration.
GIT = "plugins/plugin_utils/sources/git.py"
GIT_WORD = re.compile(r"(?:.*/)?git(?:\s+\S.*)?", re.DOTALL)
GIT_LINE = re.compile(
    r"(?:^|[;&|(`]|\bthen|\bdo|\bexec|\benv|\bcommand)\s*(?:\S*/)?git\s+[-a-z]|ansible\.builtin\.git\b", re.MULTILINE
)
SHELL = [path for path in files() if path.startswith(("plugins/", "roles/", "playbooks/")) and not path.endswith(".py")]


def git_calls(path: str) -> list[str]:
    """Words of a Python file that would start git."""
    return [
        f"{path}:{node.lineno}: {node.value[:60]}"
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and GIT_WORD.fullmatch(node.value)
    ]


def test_one_file_starts_git() -> None:
    assert git_calls(GIT), "the wrapper itself is not seen: this test would pass on anything"
    found = [call for path in PLUGIN_FILES + PROGRAMS if path != GIT for call in git_calls(path)]
    found += [f"{path}: {match[0].strip()}" for path in SHELL for match in GIT_LINE.finditer(read(path))]
    assert not found, f"only {GIT} starts git:" + bullet_list(found)


@pytest.mark.parametrize("text", ["git status", "x=$(git log)", "  cd a && /bin/git -C x log", "ansible.builtin.git:"])
def test_a_line_that_starts_git_is_seen(text: str) -> None:
    assert GIT_LINE.search(text)


#: What opens or lists files in the rooms that read state roots: `file function` -> why core/state_files.py does not.
OPENS_ITSELF = {
    "submit/start_step.py start": "writes srun's own words, into a run directory that was just made",
    "submit/start_step.py _said": "reads them back",
    "slurm/container_support.py image_trouble": "an image that the user names",
    "submit/admission/shared_folders.py _made": "writes a word into a folder that was just made",
    "submit/secret_files.py lines_of": "files of secrets that the user names",
    "submit/secret_files.py write": "makes a file in a folder that was just made",
    "watch/remote_poll.py _read": "a descriptor that was opened with care",
    "watch/remote_poll.py _logs": "a descriptor that was opened with care",
    "watch/remote_poll.py state_of": "times only",
    "watch/remote_poll.py _opened": "an artifact in a run of one's own",
    "watch/remote_poll.py _bounded": "a descriptor that was opened with care",
    "run/directory.py _append": "appends, and follows no link",
    "run/search/history.py _write": "appends, and follows no link",
    "run/search/walk.py _generations": "a descriptor that was opened with care",
    "logs/archive.py write_archive": "a new archive in a folder of its own",
    "logs/final.py packed": "the archive that was just written",
    "watch/budget.py _own_folder": "a folder of this user alone, no link",
    "watch/budget.py count": "a folder of this user alone, no link",
    "watch/budget.py drop": "a folder of this user alone, no link",
    "submit/admission/storage.py _text": "the kernel's own files",
    "submit/refs.py recorded_digest": "what lies in a store, by its path",
    "submit/shell_session.py _lay_out": "new files in a folder that was just made",
    "notify/deliver.py _names": "names only",
    "notify/deliver.py _write": "new files of claims, which follow no link",
    "notify/deliver.py address_in_file": "a file that the user names, with its owner and mode",
    "prune/inventory.py last_use": "times only",
    "prune/inventory.py caches": "names and owners only",
    "prune/inventory.py size": "sizes only",
    "prune/inventory.py run_directories": "names only",
    "prune/inventory.py _entries": "names only, below folders that are no links",
    "prune/prune.py _wanted": "a new file, for the file system's time",
    "prune/prune.py _sweep": "names only",
}
STATE_ROOMS = (
    "run", "submit", "watch", "logs", "metrics", "monitoring", "slurm", "prune", "reconcile", "explain", "notify",
    "report", "trackers",
)  # fmt: skip
OPENING = {"open", "os.open", "io.open", "os.listdir", "os.scandir", "os.walk", "bounded_walk"}
OPENING |= {"content_of", "text_of", "json_of", "parsed_json", "last_text", "read_json"}


def test_files_of_a_state_root_are_opened_in_one_way() -> None:
    """What is read there decides over launches: core/state_files.py reads it, with the owner in mind."""
    found = set()
    for path in (one for one in LIBRARY if one.split("/")[2] in STATE_ROOMS):
        for function in ast.walk(syntax_tree(path)):
            if isinstance(function, ast.FunctionDef):
                calls = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
                if calls & OPENING:
                    found.add(f"{path.removeprefix('plugins/module_utils/')} {function.name}")
    assert found == set(OPENS_ITSELF), bullet_list(sorted(found ^ set(OPENS_ITSELF)))


def test_trees_are_removed_in_one_way() -> None:
    """`shutil.rmtree` ends with a RecursionError on a tree that any job can make; core/clearing.py takes every tree."""
    found = [path for path in PLUGIN_FILES if re.search(r"\brmtree\(|import .*\brmtree\b", read(path))]
    assert not found, bullet_list(found)


def signatures(path: str, tree: ast.Module) -> list[tuple[str, str]]:
    """(file and name, its annotations) of each public function and of each public class's public methods."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_")]
    found = []
    for function in (node for body in bodies for node in body if isinstance(node, ast.FunctionDef)):
        named = function.args
        arguments = [*named.posonlyargs, *named.args, *named.kwonlyargs]
        notes = [*(argument.annotation for argument in arguments), function.returns]
        if not function.name.startswith("_"):
            text = " ".join(ast.unparse(note) for note in notes if note is not None)
            found.append((f"{path.split('/', 2)[2]} {function.name}", text))
    return found


def test_a_signature_names_what_it_takes() -> None:
    """What is of no known shape has a name of core/json_types.py: Parameters and ModuleResult are Ansible's,
    JsonObject is JSON's.
    """
    typed = [*LIBRARY, *files("plugins/plugin_utils/", ".py")]
    every = [signature for path in typed for signature in signatures(path, syntax_tree(path))]
    assert len(every) > 400
    says_any = {name for name, notes in every if re.search(r"\bAny\b", notes)}
    assert not says_any - set(ANY), bullet_list(sorted(says_any - set(ANY)))
    assert not set(ANY) - says_any, "no longer true: " + bullet_list(sorted(set(ANY) - says_any))


def test_an_unnamed_shape_in_a_signature_is_seen() -> None:
    source = "class A:\n    def f(self, a: dict[str, Any]) -> int: ...\n\n\ndef _g(a: Any) -> None: ...\n"
    assert signatures("plugins/module_utils/run/a.py", ast.parse(source)) == [("run/a.py f", "dict[str, Any] int")]
