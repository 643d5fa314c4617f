"""The pictures of the documentation: SVG, each in a light and a dark version.

`python -m tools.pictures` writes `docs/pictures/<name>.svg` and `<name>-dark.svg`; with `--check` it writes nothing and
fails if a picture is out of date.

drawing        the page, its primitives, the two themes
architecture   the three distributions, and what an operator talks to
event          one watch event, from the socket to a reconcile and back
write          one PATCH through the API server
tutorial       the objects of the tutorial
charts         the benchmarks' figures, from benchmarks/results/latest.json
"""
