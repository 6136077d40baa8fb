"""What the pages name exists: files of the repository, other pages, their sections."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from instrumentor.cli.main import as_meant
from tests import options_table, rooms_table

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Files that a worked example adds.
INVENTED = {
    "instrumentor/locate/meaning/libraries/composer.py",
    "instrumentor/locate/meaning/libraries/my_backend.py",
    "instrumentor/locate/rules/meta_device.py",
    "instrumentor/run/profilers/strace.py",
    "tests/run/profilers/test_strace.py",
}
_NAMED = re.compile(r"`((?:instrumentor|analysis|tests|fixtures)/[\w./]+\.(?:py|yaml|j2|csv))`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {name for name in _NAMED.findall(text) if name not in INVENTED}
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
    linked = _LINK.findall(text)
    assert [link for link in linked if not (page.parent / link).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_all_pages_are_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in readme


_ROOMS = re.compile(r"(<!-- rooms -->\n).*?(\n?<!-- end of rooms -->)", re.DOTALL)


def test_the_table_of_folders_is_that_of_their_docstrings(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "architecture.md"
    text = page.read_text(encoding="utf-8")
    made = _ROOMS.sub(lambda found: f"{found[1]}{rooms_table.text()}\n{found[2].strip()}", text)
    if request.config.getoption("--update-goldens"):
        page.write_text(made, encoding="utf-8")
    else:
        assert text == made, "pytest tests/test_documentation.py --update-goldens"


def test_the_packages_have_few_rooms() -> None:
    """A newcomer reads the listing: it has to fit into one look."""
    for package, most in (("instrumentor", 14), ("analysis/instrumentor_analysis", 10)):
        listed = [p.name for p in (ROOT / package).iterdir() if not p.name.startswith("__")]
        assert len([name for name in listed if name != "py.typed"]) <= most


_FENCED = re.compile(r"^```(?:console)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(r"^(?:\$ )?instrument (.*?)(?:\s+#.*)?$", re.MULTILINE)


def _typed() -> list[tuple[str, str]]:
    texts = [(page.name, page.read_text(encoding="utf-8")) for page in PAGES]
    return [
        (name, line)
        for name, text in texts
        for block in _FENCED.findall(text)
        for line in _TYPED.findall(block)
    ]


@pytest.mark.parametrize(("page", "line"), _typed())
def test_a_command_that_a_page_shows_is_understood(page: str, line: str) -> None:
    """Parsed as the command line does it, without being run: verb, options, types of values."""
    known = options_table.commands()
    words = as_meant(shlex.split(line))
    if words[0] == "--dry-run":
        return  # the bare command
    verb = " ".join(words[:2]) if words[0] == "kernel" else words[0]
    known[verb].make_context(verb, words[len(verb.split()) :])


_PRINTED = re.compile(r"(`?)\binstrument ((?:--dry-run|[a-z][a-z-]*)\b[^`\n]*)(`?)")
#: What stands for a word that the reader would have to know: upper case, dots, brackets.
_STANDS_FOR = re.compile(r"[A-Z][A-Z_]{2,}(?<!HEAD)\d*|.*\.\.\.|\[.*")


def _texts(path: Path) -> Iterator[str]:
    """What a module may print: its texts but for docstrings, a value in one as a number."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    within = {id(each) for f in ast.walk(tree) if isinstance(f, ast.JoinedStr) for each in f.values}
    for node in ast.walk(tree):
        if id(node) in alone | within:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(getattr(each, "value", "")) if isinstance(each, ast.Constant) else "3"
                          for each in node.values)  # fmt: skip


def _printed() -> list[tuple[str, str]]:
    """Commands in what the product says: in backticks within a sentence, else to the line's end."""
    files = [
        p for base in ("instrumentor", "analysis") for p in sorted((ROOT / base).rglob("*.py"))
    ]
    known = options_table.commands()
    verbs = {name.split()[0] for name in known} | {"--dry-run"}
    found = list[tuple[str, str]]()
    for path in files:
        name = str(path.relative_to(ROOT))
        for text in _texts(path):
            for opened, command, _ in _PRINTED.findall(text):
                words = command.split()
                named = opened and " ".join(words) in {*verbs, *known}  # it alone, as a name
                if words[0] in verbs and not named:
                    found.append((name, re.split(r"  #| > ", command)[0].rstrip(" .)")))
    return found


@pytest.mark.parametrize(("file", "line"), _printed())
def test_a_command_that_the_product_prints_can_be_typed_as_it_stands(file: str, line: str) -> None:
    words = shlex.split(line)
    assert [word for word in words if _STANDS_FOR.fullmatch(word)] == []
    if words[-1] != "--help":
        test_a_command_that_a_page_shows_is_understood(file, line)


def test_the_worked_examples_name_what_their_files_hold() -> None:
    guide = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    seen = 0
    for item in re.split(r"^(?=\d\. |### )", guide, flags=re.MULTILINE):
        files = [ROOT / name for name in _NAMED.findall(item) if name not in INVENTED]
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        for name in re.findall(r"`(_[a-z_]+|[A-Z_]{4,}|[a-z]+_of|__post_init__)`", item):
            assert not files or name in text, f"{name}: in none of {files}"
            seen += bool(files)
    assert seen >= 12


_REFERENCE = re.compile(r":(?:mod|func|class|data|meth|attr):`~?\.?([\w.]+)`")


def test_what_a_docstring_refers_to_exists() -> None:
    """By the end of its dotted name, as Sphinx looks for it."""
    files = [
        (base, path)
        for base in (ROOT, ROOT / "analysis")
        for path in sorted(base.glob("instrumentor*/**/*.py"))
    ]
    names = {name for base, path in files for name in _names(path.relative_to(base), path)}
    ends = {".".join(words[start:]) for words in names for start in range(len(words))}
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for _, path in files
        for name in _REFERENCE.findall(path.read_text(encoding="utf-8"))
        if name.strip(".") not in ends
    ]
    assert wrong == []


def _names(module: Path, path: Path) -> Iterator[tuple[str, ...]]:
    """Dotted names of a module, and of what it defines or imports."""
    words = module.with_suffix("").parts
    own = words[:-1] if words[-1] == "__init__" else words
    yield own
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            inner = {name for each in node.body for name in _bound(each)}
            yield from ((*own, node.name, name) for name in inner)
        yield from ((*own, name) for name in _bound(node))


def _bound(node: ast.AST) -> list[str]:
    """What a statement gives a name to."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [each.asname or each.name for each in node.names]
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for each in targets if isinstance(each, ast.Name)]
            return names + [each.attr for each in targets if isinstance(each, ast.Attribute)]
    return []
