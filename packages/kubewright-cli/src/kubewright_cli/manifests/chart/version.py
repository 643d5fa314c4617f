"""The version of a Python project as a chart version (https://semver.org)."""

from __future__ import annotations

import re
from typing import Final

from kubewright.machinery.errors import ConfigError

_VERSION: Final = re.compile(
    r"v?(?:\d+!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<stage>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<number>\d*))?"
    r"(?:[-_.]?(?:post|rev|r)[-_.]?(?P<post>\d*)|-(?P<implicit>\d+))?"
    r"(?:[-_.]?dev[-_.]?(?P<dev>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
"""The part of Python's version specifiers (packaging.python.org) that SemVer can express."""


def semantic(version: str) -> str:
    """Return `1.2.0-rc.1` for `1.2rc1`. Keeps the order of versions. Raises ConfigError for an invalid version."""
    found = _VERSION.fullmatch(version.strip())
    if found is None:
        raise ConfigError(f'project.version: "{version}" is not a version, like "1.0.0"')
    release = [*(int(each) for each in found["release"].split(".")), 0, 0]
    if any(release[3:-2]):
        raise ConfigError(f'project.version: "{version}" has more than the three parts of a chart\'s version')
    before = [found["stage"].lower(), found["number"] or "0"] if found["stage"] else []
    if found["dev"] is not None:
        before += ["dev", found["dev"] or "0"]
    post = next((found[name] or "0" for name in ("post", "implicit") if found[name] is not None), None)
    after = ([f"post.{post}"] if post else []) + ([found["local"].replace("_", ".")] if found["local"] else [])
    text = ".".join(map(str, release[:3]))
    return text + (f"-{'.'.join(before)}" if before else "") + (f"+{'.'.join(after)}" if after else "")
