"""The same script under other names: local variables renamed, imports made under aliases."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping

import libcst as cst

_NEW = re.compile(r"\bv\d+_\b")


class _Words(cst.CSTVisitor):
    """Names that assignments, loops, `with` and parameters bind, and words that must stay."""

    def __init__(self) -> None:
        self.bound: dict[str, None] = {}
        self.fixed: set[str] = set()

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._take(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._take(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._take(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._take(node.target)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self._take(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._take(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._take(node.name)

    def visit_Param(self, node: cst.Param) -> None:
        self._take(node.name)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.fixed.add(node.attr.value)

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self.fixed.add(node.keyword.value)

    def visit_Import(self, node: cst.Import) -> bool:
        self.fixed.update(re.findall(r"\w+", cst.Module([]).code_for_node(node)))
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        self.fixed.update(re.findall(r"\w+", cst.Module([]).code_for_node(node)))
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.fixed.add(node.name.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.fixed.add(node.name.value)
        for statement in node.body.body:  # attributes of the class are no local variables
            self.fixed.update(re.findall(r"^\w+", cst.Module([]).code_for_node(statement).strip()))

    def _take(self, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Name):
            self.bound[target.value] = None
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._take(element.value)


class _Rename(cst.CSTTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        new = self.names.get(original_node.value)
        return updated_node if new is None else updated_node.with_changes(value=new)


def new_names(files: Iterable[bytes]) -> dict[str, str]:
    """Old -> new for every local variable and parameter that no attribute or keyword shares."""
    words = _Words()
    for data in files:
        cst.parse_module(data).visit(words)
    free = [n for n in words.bound if n not in words.fixed and n not in ("self", "cls", "_")]
    return {n: f"v{i}_" for i, n in enumerate(free) if not keyword.iskeyword(n)}


def renamed(data: bytes, names: Mapping[str, str]) -> bytes:
    """The file with these names; everything else byte for byte."""
    module = cst.parse_module(data)
    return module.visit(_Rename(names)).bytes


def with_old_names(text: str, names: Mapping[str, str]) -> str:
    """A text that speaks of the new names, with the old ones put back."""
    old = {new: name for name, new in names.items()}
    return _NEW.sub(lambda match: old[match.group()], text)


# -- aliases of imports ----------------------------------------------------------------------------

#: How a file may reach the same things: `import a as b`, `from a import c as d`, `d = a.c`.
WAYS = ("as", "from", "assigned")
_END = r"(?=[ \t]*\r?$)"


class _Chains(cst.CSTTransformer):
    """Replaces dotted names from an imported module on, at most so many words of each."""

    def __init__(self, modules: Mapping[str, str], way: str) -> None:
        self.modules, self.way = modules, way
        self.used: dict[str, str] = {}

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        whole = cst.Module([]).code_for_node(original_node)
        if self.way == "as" or not re.fullmatch(r"\w+(\.\w+)+", whole):
            return updated_node
        head, _, rest = whole.partition(".")
        if head not in self.modules or (rest.count(".") and self.modules[head] == head):
            return updated_node
        return cst.Name(self._alias(whole))

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if self.way == "as" and original_node.value in self.modules:
            return cst.Name(self._alias(original_node.value))
        return updated_node

    def _alias(self, whole: str) -> str:
        return self.used.setdefault(whole, f"v{len(self.used)}_")


def aliased(data: bytes, way: str) -> tuple[bytes, dict[str, str]]:
    """The file with its modules of torch reached in another way, and old -> new names."""
    text = data.decode("latin-1")
    found = re.findall(
        r"(?m)^[ \t]*import ((?:torch|accelerate)[\w.]*)(?: as (\w+))?[ \t]*\r?$", text
    )
    modules = {name or module: module for module, name in found if name or "." not in module}
    module = cst.parse_module(data)
    chains = _Chains(modules, way)
    text = module.visit(chains).bytes.decode("latin-1")
    for local, imported in modules.items():
        line = re.escape(f"import {imported}" + ("" if local == imported else f" as {local}"))
        text = re.sub(
            rf"(?m)\b{line}(?=[ \t]*\r?$)", _import(local, imported, way, chains.used), text
        )
    return text.encode("latin-1"), chains.used


def _import(local: str, imported: str, way: str, used: Mapping[str, str]) -> str:
    """One line that binds what the file uses of a module."""
    if way == "as":
        return f"import {imported} as {used.get(local, local)}"
    own = {w: alias for w, alias in used.items() if w.partition(".")[0] == local}
    plain = f"import {imported}" + ("" if local == imported else f" as {local}")
    parts = [plain]
    for whole, alias in own.items():
        name = whole.partition(".")[2]
        parts.append(
            f"{alias} = {whole}"
            if way == "assigned"
            else f"from {imported} import {name} as {alias}"
        )
    return "; ".join(parts)
