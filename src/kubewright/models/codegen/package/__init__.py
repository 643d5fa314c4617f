"""A package of its own for the users of some kinds: clientset, informers and listers, typed, from their CRDs alone.

It needs `kubewright`, and nothing of the operator that serves the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files as package_files
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright.models.codegen import names
from kubewright.models.codegen.module import Kind, Module, modules_of

HEADER: Final = "# Made by `kubewright generate client`, which writes it anew: change nothing here."


@dataclass(frozen=True, slots=True)
class Package:
    """How the package is called, and what it needs."""

    project: str
    """On an index: `fleet-client`."""
    version: str
    requires: str
    """Of Kubewright: `kubewright>=1.0`."""

    @property
    def name(self) -> str:
        """For `import`."""
        return self.project.replace("-", "_")


def package(crds: Iterable[JSONObject], about: Package) -> dict[str, str]:
    """The files of the package: text by path. Raises ModelError for a document that is no CRD that can be served."""
    modules = _named(modules_of(crds))
    source = {f"{name}.py": module.source() for name, module in modules.items()}
    source |= {
        "__init__.py": _init(modules),
        "clientset.py": _clientset(modules),
        "informers.py": _informers(modules),
        "resource.py": (package_files(__name__) / "resource.py.txt").read_text(),
        "py.typed": f"{HEADER}\n",
    }
    return {
        "pyproject.toml": _pyproject(about),
        "README.md": _readme(about, modules),
        **{f"src/{about.name}/{path}": text for path, text in sorted(source.items())},
    }


def _named(modules: Mapping[str, Module]) -> dict[str, Module]:
    """By what they are called here: `fleet_v1`; with the whole group where two begin alike."""
    short = {name: names.module(module.group.partition(".")[0], module.version) for name, module in modules.items()}
    taken = list(short.values())
    return {each if taken.count(each) == 1 else name: modules[name] for name, each in short.items()}


def _init(modules: Mapping[str, Module]) -> str:
    listed = "".join(f'    "{each}",\n' for each in sorted(["Clientset", "Informers", *modules]))
    imports = "".join(f"from . import {name} as {name}\n" for name in modules)
    served = ", ".join(f"{module.group}/{module.version}" for module in modules.values())
    return (
        f'{HEADER}\n"""Typed access to the kinds of {served}."""\n\n'
        f"{imports}from .clientset import Clientset as Clientset\nfrom .informers import Informers as Informers\n\n"
        f"__all__ = [\n{listed}]\n"
    )


def _imported(modules: Mapping[str, Module]) -> str:
    return f"from . import {', '.join(modules)}"


def _clientset(modules: Mapping[str, Module]) -> str:
    blocks = [_group(module, name) for name, module in modules.items()]
    members = "".join(
        f'        self.{name} = {_class(name)}(self.client)\n        """{module.group}/{module.version}"""\n'
        for name, module in modules.items()
    )
    return (
        f'''{HEADER}
"""The clientset: a door to each kind."""

from __future__ import annotations

from typing import Self

from kubewright.client import Client, Config

{_imported(modules)}
from .resource import Resource


class Clientset:
    """Clients of all kinds, over one connection to an API server. Closed by `async with`, or by `close`."""

    def __init__(self, config: Config | Client | None = None) -> None:
        """Of the server that `config` names, or that kubectl would talk to; in a Pod, the cluster's own.

        Raises ConfigError when there is none.
        """
        self._owned = not isinstance(config, Client)
        self.client = config if isinstance(config, Client) else Client(config or Config.load())
        """For every other kind, verb and option."""
{members}
    async def close(self) -> None:
        """Close the connections; those of a Client that was given are its owner's."""
        if self._owned:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ended_by: object) -> None:
        await self.close()


{"".join(blocks)}'''.rstrip()
        + "\n"
    )


def _group(module: Module, name: str) -> str:
    methods = "".join(_door(kind, name) for kind in module.kinds)
    return f'''class {_class(name)}:
    """The kinds of {module.group}/{module.version}."""

    def __init__(self, client: Client) -> None:
        self._client = client
{methods}

'''


def _door(kind: Kind, module: str) -> str:
    arguments, given = (", namespace: str | None = None", "namespace") if kind.namespaced else ("", "None")
    where = "of a namespace, or of all" if kind.namespaced else "of the cluster"
    return f'''
    def {kind.accessor}(self{arguments}) -> Resource[{module}.{kind.class_name}]:
        """Each {kind.name} {where}."""
        return Resource(self._client, {module}.{kind.class_name}, {given})
'''


def _informers(modules: Mapping[str, Module]) -> str:
    members = "".join(
        f'        self.{name} = {_class(name)}Informers(self.cache)\n        """{module.group}/{module.version}"""\n'
        for name, module in modules.items()
    )
    blocks = "".join(_group_informers(module, name) for name, module in modules.items())
    return (
        f'''{HEADER}
"""Informers: local copies of kinds that keep up with the server; each has a lister, which reads from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from kubewright.cache import Cache, Informer, Scope
from kubewright.models import Object

{_imported(modules)}
from .clientset import Clientset


class Informers:
    """One informer for each kind that is asked for. They run while the block of `async with` does."""

    def __init__(
        self,
        clients: Clientset,
        *,
        namespace: str | Sequence[str] | None = None,
        scopes: Mapping[type[Object], Scope] | None = None,
    ) -> None:
        """Of the objects in `namespace`, one or several, or in all; `scopes` says more for some kinds."""
        self.cache = Cache(clients.client, namespace=namespace, scopes=scopes)
{members}
    async def wait_synced(self, timeout: float | None = None) -> None:
        """Until all that was asked for is complete. Raises DeadlineExceeded, which names what is not."""
        await self.cache.wait_synced(timeout)

    async def __aenter__(self) -> Self:
        self.cache.start()
        return self

    async def __aexit__(self, *ended_by: object) -> None:
        await self.cache.stop()


{blocks}'''.rstrip()
        + "\n"
    )


def _group_informers(module: Module, name: str) -> str:
    properties = "".join(
        f'''
    @property
    def {kind.accessor}(self) -> Informer[{name}.{kind.class_name}]:
        """Of {kind.name}; its `lister` reads."""
        return self._cache.informer({name}.{kind.class_name})
'''
        for kind in module.kinds
    )
    return f'''class {_class(name)}Informers:
    """The kinds of {module.group}/{module.version}."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
{properties}

'''


def _class(module: str) -> str:
    return "".join(part.capitalize() for part in module.split("_"))


def _pyproject(about: Package) -> str:
    return f'''{HEADER}
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{about.project}"
version = "{about.version}"
description = "Typed clients, informers and listers."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["{about.requires}"]

[tool.hatch.build.targets.wheel]
packages = ["src/{about.name}"]
'''


def _readme(about: Package, modules: Mapping[str, Module]) -> str:
    name, module = next(iter(modules.items()))
    kind = module.kinds[-1]
    door = f"clients.{name}.{kind.accessor}({chr(34) + 'default' + chr(34) if kind.namespaced else ''})"
    rows = "".join(
        f"| {kind.name} | {module.group}/{module.version} | `clients.{name}.{kind.accessor}"
        f"({'namespace' if kind.namespaced else ''})` | `informers.{name}.{kind.accessor}` |\n"
        for name, module in modules.items()
        for kind in module.kinds
    )
    key = '"name", "default"' if kind.namespaced else '"name"'
    return f"""<!-- {HEADER.removeprefix("# ")} -->
# {about.project}

Typed access to some kinds of a Kubernetes API, for programs other than the operator that serves them. It needs
`kubewright` (its client, cache and types) and nothing of the operator.

| kind | of | client | informer |
|---|---|---|---|
{rows}
```python
import asyncio

from {about.name} import Clientset, Informers


async def main() -> None:
    async with Clientset() as clients:  # the server of $KUBECONFIG, or in a Pod the cluster's own
        for each in await {door}.list():
            print(each.metadata.name)

        informers = Informers(clients)
        lister = informers.{name}.{kind.accessor}.lister
        async with informers:  # a copy of what was asked for, which keeps up with the server
            await informers.wait_synced()
            print(len(lister), lister.get({key}))


asyncio.run(main())
```

`Clientset.client` is a `kubewright.Client`, for every other kind, verb and option.
"""
