"""Write `tests/golden/api.txt`: every public name with its signature. A change of the public API changes that file.

    python tools/api.py [--check]

Public is what the modules with a page in the API reference export. The built-in kinds are left out: they are generated
from Kubernetes' API.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import griffe

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tools.site import names, reference  # noqa: E402 - found from the root of the repository

GOLDEN: Final = ROOT / "tests" / "golden" / "api.txt"


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"]):
        sys.exit("usage: api.py [--check]")
    text = "".join(f"{line}\n" for line in lines(reference.load(ROOT)))
    if not arguments:
        GOLDEN.write_text(text)
        return 0
    old = GOLDEN.read_text() if GOLDEN.exists() else ""
    if old == text:
        return 0
    path = str(GOLDEN.relative_to(ROOT))
    print("".join(difflib.unified_diff(old.splitlines(True), text.splitlines(True), path, "generated", n=0)))
    print("The public API changed. If that is intended, run `make generate` and describe the change in CHANGELOG.md.")
    return 1


def lines(api: reference.Reference) -> Iterator[str]:
    """Yield the public names, module by module."""
    for module, things in api.pages.items():
        if module == "kubewright.apis":
            continue
        yield f"# {module}"
        for name, thing in sorted(things.items()):
            yield from [f"{name}: see {_home(api, thing)}"] if module == "kubewright" else _described(name, thing)
        yield ""


def _home(api: reference.Reference, thing: griffe.Object) -> str:
    """Return the package that documents a name of the root."""
    return api.path(thing).rpartition(".")[0]


def _described(name: str, thing: griffe.Object) -> Iterator[str]:
    if isinstance(thing, griffe.Class):
        bases = ", ".join(str(each) for each in thing.bases)
        yield f"class {name}({bases})" if bases else f"class {name}"
        init = thing.members.get("__init__")
        if isinstance(init, griffe.Function) and not init.has_docstring:
            yield f"    def __init__({_parameters(init)})"
        for member in names.members(thing):
            yield from (f"    {line}" for line in _described(member.name, member))
    elif isinstance(thing, griffe.Function):
        overloads = thing.overloads if isinstance(thing.overloads, list) else None
        for each in overloads or [thing]:
            prefix = "async def" if "async" in each.labels else "def"
            yield f"{prefix} {name}({_parameters(each)}) -> {each.returns}"
    elif isinstance(thing, griffe.Attribute):
        label = "property " if "property" in thing.labels else ""
        default = f" = {thing.value}" if _is_struct(thing.parent) and thing.value is not None else ""
        yield f"{label}{name}: {thing.annotation}{default}" if thing.annotation is not None else f"{label}{name}"
    else:
        yield f"module {name}"


def _is_struct(thing: griffe.Object | None) -> bool:
    """Return whether the attributes of a class are the parameters of its constructor."""
    return isinstance(thing, griffe.Class) and any(str(base).endswith("Struct") for base in thing.bases)


def _parameters(function: griffe.Function) -> str:
    """Return the parameters as in the source, without `self`."""
    out: list[str] = []
    keyword_only = False
    for each in function.parameters:
        if each.name in ("self", "cls"):
            continue
        if each.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            keyword_only = True
            out.append("*")
        star = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(each.kind, "")
        keyword_only = keyword_only or star == "*"
        text = f"{star}{each.name}" + (f": {each.annotation}" if each.annotation is not None else "")
        out.append(text if each.default is None or star else f"{text} = {each.default}")
    return ", ".join(out)


if __name__ == "__main__":
    sys.exit(main())
