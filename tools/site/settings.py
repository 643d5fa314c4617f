"""The generator's settings, as the file that it reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from tools.site.navigation import Entry

HERE: Final = Path(__file__).parent
THEME: Final = HERE / "theme"

SETTINGS: Final[dict[str, Any]] = {
    "site_name": "Kubewright",
    "site_description": "Build, test and run Kubernetes operators in Python",
    "docs_dir": "source",
    "site_dir": "site",
    "extra_css": ["theme/extra.css"],
    "extra": {"polyfills": ["theme/iframe-worker.js"]},
    "theme": {
        "font": False,  # use the fonts of the reader's machine, and load none
        "favicon": "theme/kubewright.svg",
        "logo": "theme/kubewright.svg",
        "features": [
            "content.code.copy",
            "navigation.footer",
            "navigation.path",
            "navigation.sections",
            "navigation.top",
            "navigation.tracking",
            "search.highlight",
            "toc.follow",
        ],
        "palette": [
            {
                "media": "(prefers-color-scheme)",
                "toggle": {"icon": "lucide/sun-moon", "name": "As the system: switch to light"},
            },
            {
                "media": "(prefers-color-scheme: light)",
                "scheme": "default",
                "toggle": {"icon": "lucide/sun", "name": "Light: switch to dark"},
            },
            {
                "media": "(prefers-color-scheme: dark)",
                "scheme": "slate",
                "toggle": {"icon": "lucide/moon", "name": "Dark: switch to the system's"},
            },
        ],
    },
    "markdown_extensions": {
        "admonition": {},
        "attr_list": {},
        "md_in_html": {},
        "tables": {},
        "toc": {  # anchors as GitHub makes them
            "permalink": True,
            "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}},
        },
        "pymdownx.highlight": {"pygments_lang_class": True},
        "pymdownx.inlinehilite": {},
        "pymdownx.magiclink": {},
        "pymdownx.superfences": {},
    },
    "plugins": {
        "offline": {},
        "search": {},
        "mkdocstrings": {
            "default_handler": "python",
            "handlers": {
                "python": {
                    "options": {
                        "docstring_style": None,
                        "heading_level": 2,
                        "filters": ["!^_"],
                        "line_length": 88,
                        "members_order": "source",
                        "merge_init_into_class": True,
                        "separate_signature": True,
                        "show_attribute_values": True,
                        "show_bases": True,
                        "show_if_no_docstring": True,
                        "show_root_heading": True,
                        "show_root_full_path": False,
                        "show_root_toc_entry": True,
                        "show_signature_annotations": True,
                        "show_source": False,
                        "show_symbol_type_heading": True,
                        "show_symbol_type_toc": True,
                        "signature_crossrefs": True,
                    }
                }
            },
        },
    },
}


def write(folder: Path, navigation: list[Entry]) -> Path:
    """Write the settings of a site to `folder`, which has the pages in `source`. Returns the file."""
    settings = {**SETTINGS, "nav": navigation}
    python = settings["plugins"]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(path) for path in sorted(HERE.parents[1].glob("packages/*/src"))]
    python["options"]["extensions"] = [
        "dataclasses",
        f"{HERE / 'extension.py'}:Docstrings",
    ]  # runs after dataclasses
    shutil.copytree(THEME, folder / "source" / "theme")
    path = folder / "zensical.yml"
    path.write_text(json.dumps(settings, indent=2))  # which is YAML
    return path
