"""The same script under other names: local variables renamed, imports made under aliases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

import libcst as cst

_NEW = re.compile(r"\bv\d+_\b")


class _Rename(cst.CSTTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        new = self.names.get(original_node.value)
        return updated_node if new is None else updated_node.with_changes(value=new)


def new_names(files: Iterable[bytes]) -> dict[str, str]:
    """Old -> new for every local variable and parameter that no attribute or keyword shares."""
    bound, fixed = dict[str, None](), {"self", "cls", "_"}
    for node in (node for data in files for node in ast.walk(ast.parse(data))):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound[name] = None
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.FunctionDef(name=name):
                fixed.add(name)
            case ast.Import() | ast.ImportFrom():
                fixed.update(re.findall(r"\w+", ast.unparse(node)))
            case ast.ClassDef(name=name, body=body):  # its attributes are no local variables
                fixed.update((name, *(re.match(r"\w*", ast.unparse(s))[0] for s in body)))
    free = [name for name in bound if name not in fixed]
    return {name: f"v{i}_" for i, name in enumerate(free)}


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
    parts = [f"import {imported}" + ("" if local == imported else f" as {local}")]
    for whole, alias in used.items():
        head, _, name = whole.partition(".")
        if head == local:
            imports = f"from {imported} import {name} as {alias}"
            parts.append(f"{alias} = {whole}" if way == "assigned" else imports)
    return "; ".join(parts)
