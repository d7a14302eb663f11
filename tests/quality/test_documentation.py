# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module says about itself, and that what the pages name exists."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import FABRICS
from tests.repository import (
    ROOT,
    bullet_list,
    files,
    load_yaml,
    module_documentation,
    plugin_names,
    read,
)

MODULES = plugin_names("modules")
#: What a module extends: one of these. The second is for those that change nothing in any mode.
ATTRIBUTES = ("rankzero.slurm.attributes", "rankzero.slurm.attributes.looks")


@functools.cache
def documentation(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load(module_documentation(name))
    assert isinstance(loaded, dict), f"plugins/modules/{name}.py has no DOCUMENTATION"
    return loaded


@functools.cache
def fragment(full_name: str) -> dict[str, Any]:
    """A documentation fragment of ours: `rankzero.slurm.attributes.looks`."""
    _, _, file, *rest = full_name.split(".")
    module = importlib.import_module(f"ansible_collections.rankzero.slurm.plugins.doc_fragments.{file}")
    loaded = yaml.safe_load(getattr(module.ModuleDocFragment, (rest[0] if rest else "documentation").upper()))
    assert isinstance(loaded, dict)
    return loaded


def all_options(name: str) -> dict[str, Any]:
    """The options of a module, those of its fragments included."""
    doc = documentation(name)
    options = dict(doc.get("options") or {})
    for used in doc.get("extends_documentation_fragment", []):
        if used.startswith("rankzero.slurm."):
            options.update(fragment(used).get("options") or {})
    return options


def nested_names(options: dict[str, Any]) -> Iterator[str]:
    for name, option in options.items():
        yield name
        yield from nested_names(option.get("suboptions") or {})


def missing_attributes(name: str) -> Iterator[str]:
    doc = documentation(name)
    extended = [used for used in doc.get("extends_documentation_fragment", []) if used in ATTRIBUTES]
    if len(extended) != 1:
        yield f"{name} must extend one of {ATTRIBUTES}"
    stated = [doc.get("attributes", {}), *(fragment(used)["attributes"] for used in extended)]
    for attribute in ("check_mode", "diff_mode"):
        said = [known.get(attribute, {}).get("support") for known in stated]
        if len([support for support in said if support in ("full", "partial", "none")]) != 1:
            yield f"{name} does not say once its support of {attribute}"
    if doc["module"] != name:
        yield f"{name} calls itself {doc['module']}"
    if not doc.get("version_added"):
        yield f"{name} has no version_added"


def test_modules_state_their_attributes() -> None:
    assert MODULES, "no module was found: the tests of this file would pass on anything"
    missing = [problem for name in MODULES for problem in missing_attributes(name)]
    assert not missing, bullet_list(missing)


def test_action_group_can_hold_a_default() -> None:
    """The group is that of one fragment: each module of it takes the options that the fragment has."""
    group = load_yaml("meta/runtime.yml")["action_groups"]["slurm"]
    shared = "rankzero.slurm.store.state"
    extending = [name for name in MODULES if shared in documentation(name)["extends_documentation_fragment"]]
    assert group == extending
    assert set.intersection(*(set(all_options(name)) for name in group)) >= set(fragment(shared)["options"]) > set()
    assert fragment(shared)["attributes"]["action_group"]["membership"] == ["rankzero.slurm.slurm"]


def test_internal_options_stand_last_and_no_author_is_a_placeholder() -> None:
    pages = {name: documentation(name) for name in MODULES}
    for name, page in pages.items():
        options = sorted(page.get("options") or {})  # the order of ansible-doc
        internal = [option for option in options if "Internal." in str(page["options"][option]["description"])]
        assert internal == options[len(options) - len(internal) :], f"{name}: {internal} stand before public options"
        assert all(option.startswith("x_") for option in internal), f"{name}: {internal}"
        assert "UNKNOWN" not in str(page["author"]), name
    assert sum("x_request" in page.get("options", {}) for page in pages.values()) > 5


def wrong_examples(name: str) -> Iterator[str]:
    tasks = yaml.safe_load(module_documentation(name, "EXAMPLES"))
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        yield f"EXAMPLES of {name} is not a list of tasks"
        return
    for task in tasks:
        if not task.get("name"):
            yield f"an example of {name} needs a name: {task!r}"
    used = [task[f"rankzero.slurm.{name}"] or {} for task in tasks if f"rankzero.slurm.{name}" in task]
    if not used:
        yield f"no example uses rankzero.slurm.{name}"
    unknown = sorted({option for arguments in used for option in arguments} - set(all_options(name)))
    if unknown:
        yield f"the examples of {name} use options that it does not have: {unknown}"


def test_examples_are_tasks_that_use_the_module_by_its_full_name() -> None:
    wrong = [problem for name in MODULES for problem in wrong_examples(name)]
    assert not wrong, bullet_list(wrong)


def undescribed_values(name: str) -> Iterator[str]:
    values = yaml.safe_load(module_documentation(name, "RETURN"))
    if not isinstance(values, dict) or not values:
        yield f"RETURN of {name} is not a map of values"
        return
    for key, value in values.items():
        if not (value.get("description") and value.get("returned") and value.get("type")):
            yield f"RETURN of {name}: {key} lacks description, returned or type"


def test_every_returned_value_is_described() -> None:
    undescribed = [problem for name in MODULES for problem in undescribed_values(name)]
    assert not undescribed, bullet_list(undescribed)


@functools.cache
def texts_of_tests() -> dict[str, str]:
    """Everything that exercises the collection: all tests but the ones about the repository, and the scenarios."""
    wanted = (".py", ".yml", ".yaml", ".sh", ".sbatch")
    return {
        path: read(path)
        for path in files("tests/") + files("extensions/molecule/")
        if path.endswith(wanted) and not path.startswith("tests/quality/")
    }


@functools.cache
def words_of_tests(mentioning: str = "") -> set[str]:
    """Every word of the texts that hold `mentioning`."""
    return {word for text in texts_of_tests().values() if mentioning in text for word in words(text)}


@functools.cache
def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


def test_every_module_option_is_used_by_a_test() -> None:
    """A word in a test is weak evidence that an option works; its absence is strong evidence that nobody looked."""
    missing = [
        f"{name}: {option}"
        for name in MODULES
        for option in sorted(
            (set(all_options(name)) - words_of_tests(mentioning=name))
            | (set(nested_names(all_options(name))) - words_of_tests())
        )
    ]
    assert not missing, "no test of the module names its option:" + bullet_list(missing)


def test_every_role_option_is_used_by_a_test() -> None:
    missing = [
        f"{role}: {option}"
        for role in sorted({path.split("/")[1] for path in files("roles/")})
        for option in sorted(set(load_yaml(f"roles/{role}/defaults/main.yml") or {}) - words_of_tests())
    ]
    assert not missing, "no test or scenario sets:" + bullet_list(missing)


#: Written by scripts/reference_pages.py when the site is built.
GENERATED_PAGES = ("job-examples", "return-values")
NAVIGATION = "docs/docsite/navigation.md"
PAGES = [*(path for path in files(suffix=".md") if path != NAVIGATION), *files("docs/", ".rst")]


def slug(heading: str) -> str:
    """The anchor that a heading of a Markdown page gets where such pages are shown."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def broken_links(page: str) -> Iterator[str]:
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", read(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            yield f"{page}: {target}: no such file"
        elif anchor and anchor not in anchors(file):
            yield f"{page}: {target}: no such heading"


@functools.cache
def anchors(file: Path) -> set[str]:
    return set(map(slug, re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)))


def test_links_lead_somewhere() -> None:
    assert PAGES
    broken = [problem for page in PAGES for problem in broken_links(page)]
    assert not broken, bullet_list(broken)


def test_every_page_has_one_place_in_the_navigation() -> None:
    listed = [
        page
        for page in re.findall(r"^(?:.+ <)?([\w/-]+)>?$", read(NAVIGATION), re.M)
        if not page.startswith("collection/")
    ]
    pages = [
        path
        for path in PAGES
        if path.endswith(".md") and not path.startswith((".github/", "README.md", "python/rankzero/skills/"))
    ]
    written = {path.removesuffix(".md") for path in pages}
    written |= {f"docs/{page}" for page in GENERATED_PAGES}
    wrong = [f"{page}: add a line to {NAVIGATION}" for page in sorted(written - set(listed))]
    wrong += [f"{page}: {NAVIGATION} lists it, and there is no such page" for page in sorted(set(listed) - written)]
    wrong += [f"{page}: {NAVIGATION} lists it twice" for page in sorted(set(listed)) if listed.count(page) > 1]
    assert not wrong, bullet_list(wrong)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", read("Makefile"), re.M))


def test_make_targets_that_are_named_exist() -> None:
    unknown = [
        f"{page} tells people to run `make {target}`, which the Makefile does not have"
        for page in [*PAGES, "scripts/bootstrap"]
        for target in sorted(set(re.findall(r"(?:^\s*|[`$] ?)make ([a-z][a-z-]*)", read(page), re.M)) - make_targets())
    ]
    assert not unknown, bullet_list(unknown)


#: What only the authors could look up: numbers of requirements, and files that are not in the repository.
CITATION = re.compile(
    r"(?<!\w)\((?:[CDELPRS][0-9]{1,2}(?:, | and |-)?)+[);]"  # (XX), (XX, XX), (XX; and words)
    r"|, [CDELPRS][0-9]{1,2}\)(?!\s*[;=])"  # (words, XX)
    r"|\"\"\"[CDELPRS][0-9]{1,2}[:, ]"  # a docstring that begins with one
    r"|(?<!\w)\((?:spec|pitfalls|requirements?|redesign): [a-z]"
    r"|\b(?:shared/spec|spec/[a-z-]+\.md|pitfalls\.md|redesign\.md|requirements?\.md)\b",
)
PROSE = (".py", ".sh", ".md", ".rst", ".yml", ".yaml", ".json", ".j2", ".sbatch", ".toml")
#: Recorded texts of other programs, and prose about tools.
NOT_OURS = ("tests/unit/diagnosis/", "tests/diagnosis/", "benchmarks/diagnosis/", "tests/quality/test_documentation.py")


def citations(path: str) -> list[str]:
    text = read(path)
    return [f"{path}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]}" for hit in CITATION.finditer(text)]


OURS = [path for path in files() if path.endswith(PROSE) and not path.startswith(NOT_OURS)]


def test_nothing_cites_what_a_reader_does_not_have() -> None:
    cited = [citation for path in OURS for citation in citations(path)]
    assert not cited, "say it in words:" + bullet_list(cited)


@pytest.mark.parametrize(
    "line",
    [
        "the CPUs (L5)",
        "(P4, P6, E4): who is fit",
        "per node, L11)",
        "size (L11; srun",
        '"""L4: what',
        "(spec: toolchain)",
    ],
)
def test_a_citation_is_seen(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "read", lambda _path: line)
    assert citations("x.py")


PAGE_NAME = re.compile(r"(?<![\w/.])(?:docs|contributing)/[\w/-]+\.(?:md|yml|rst)")


def test_pages_that_are_named_exist() -> None:
    named = [
        f"{path}: {page}"
        for path in OURS
        if not path.startswith("tests/unit/")
        for page in sorted(set(PAGE_NAME.findall(read(path))))
        if not (ROOT / page).exists()
    ]
    assert not named, "no such page:" + bullet_list(named)


#: A day, or a month with its year.
DATE = re.compile(
    r"\b20\d\d-\d\d-\d\d\b"
    r"|\b(?:January|February|March|April|May|June|July|August|September|October|November|December),? (?:20)?\d\d\b"
)
#: What a program printed, or what is typed, may contain a date.
QUOTED = re.compile(r"^```.*?^```$|^ {4}[^\n]*$|`[^`\n]*`", re.M | re.S)
RESULTS = "benchmarks/RESULTS.md"


def test_only_the_results_have_dates_and_they_have_the_newest_table_of_each() -> None:
    """A figure of a day is wrong on the next one, so one page keeps them, and a new run replaces the old one there."""
    dated = [
        f"{page}: {hit[0]}" for page in PAGES if page != RESULTS for hit in DATE.finditer(QUOTED.sub("", read(page)))
    ]
    assert not dated, f"{RESULTS} keeps what was measured:" + bullet_list(dated)
    _, *sections = re.split(r"^## ", read(RESULTS), flags=re.M)
    titles = [section.partition("\n")[0] for section in sections]
    assert titles and len(set(titles)) == len(titles) and not DATE.search(" ".join(titles))
    undated = [title for title, section in zip(titles, sections) if section.count("\nMeasured 20") != 1]
    assert not undated, "one run a section, with its day:" + bullet_list(undated)


def test_files_that_the_page_on_architecture_names_exist() -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]+)`", read("contributing/architecture.md")))
    assert len(named) > 30, "the pattern finds no paths: this test would pass on anything"
    tops = (ROOT, ROOT / "plugins", ROOT / "plugins/module_utils")
    missing = [path for path in sorted(named) if not any((top / path).exists() for top in tops)]
    assert not missing, "no such file:" + bullet_list(missing)


def test_the_files_and_tests_that_keep_the_traps_exist() -> None:
    page = read("contributing/traps.md")
    tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    named = set(re.findall(r"`((?:plugins|tests)/[\w/]+\.\w+)[`:]", page))
    assert len(tests) > 30 and len(named) > 50, "the pattern finds nothing: this test would pass on anything"
    gone = sorted(path for path in named if not (ROOT / path).is_file())
    gone += [f"{path}::{name}" for path, name in tests if path not in gone and f"def {name}(" not in read(path)]
    assert not gone, "name what keeps the trap now, or remove the entry:" + bullet_list(gone)


def test_the_glossary_is_in_order_and_leads_on() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\*.*? \| (.+?) \| (.+?) \|$", read("docs/glossary.md"), re.M)
    terms = [term for term, _text, _more in rows]
    assert len(rows) > 30 and terms == sorted(terms) and len(set(terms)) == len(terms)
    wordy = [term for term, text, _more in rows if len(re.findall(r"[.:] [A-Z]", text)) > 2]
    assert not wordy, "more than three sentences:" + bullet_list(wordy)
    assert all("](" in more for _term, _text, more in rows)


def test_the_table_of_role_nccl_has_each_fabric() -> None:
    rows = re.findall(r"^\| (`[^|]*`) \| [^|]+ \| (?:no|on the lab) \|$", read("roles/nccl/README.md"), re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {fabric.name for fabric in FABRICS}


def test_the_readme_is_one_screen_and_the_index_names_every_page() -> None:
    before, script, after = re.split(r"</?details>\n", read("README.md"))
    by_hand = script.partition("```bash\n")[2].partition("```")[0].splitlines()
    assert 25 <= len(by_hand) <= 35, "what is folded away is the thirty lines, and they are what it says"
    lines = [*before.splitlines(), *after.splitlines()]
    first = [line.partition("#")[0].strip() for line in lines[:6]]
    assert {"make train NODES=4", "make test"} <= set(first), "the two commands come first"
    assert len(lines) <= 80, f"README.md has {len(lines)} lines; other pages own the rest"
    rows = [line for line in lines if line.startswith("| ") and "---" not in line and line != "| | |"]
    assert len(rows) == 8, "eight links, and the index of docs/ for all pages"
    pages = {path.removeprefix("docs/") for path in files("docs/", ".md") if path.count("/") == 1} - {"README.md"}
    missing = sorted(page for page in pages if f"]({page})" not in read("docs/README.md"))
    assert not missing, "docs/README.md lists every page:" + bullet_list(missing)
