"""The scaffold of a project: files that are written once and then belong to their author.

names       valid names of projects, groups, versions and kinds
record      PROJECT: the scaffolded kinds
templates   the templates of the files
program     adds a controller to main.py
versions    copies a kind for another version
settings    changes one setting in pyproject.toml
plan        the files that `init`, `create` and `edit` write
changes     writes all files or none, and overwrites none without permission
"""
