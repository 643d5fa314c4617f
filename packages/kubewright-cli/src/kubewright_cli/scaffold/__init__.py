"""A project's files: written once, then a person's.

names       which names a project, a group, a version and a kind may have
record      PROJECT: what was scaffolded
templates   the files of `cli/templates`, filled in
program     main.py, with one more controller
plan        which files `init` and `create` write
changes     files written all or none, and none of a person's without being asked to
"""
