"""The scaffold of a project: files that are written once and then belong to their author.

names       valid names of projects, groups, versions and kinds
record      PROJECT: the scaffolded kinds
kinds       the kinds and versions that the options of `kubewright create` name
templates   the templates of the files
sources     edits Python modules at the places that their syntax trees name
program     adds controllers and webhooks to main.py
versions    copies a kind for another version
conversion  writes functions that convert a kind between two versions
settings    changes one setting, or an extra, in pyproject.toml
plan        the files that `init`, `create api` and `create controller` write
webhooks    the files that `create webhook` writes and extends
changes     writes all files or none, and overwrites none without permission
"""
