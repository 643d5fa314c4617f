"""Transcripts: commands with their output, which are verified by running the commands again.

    python -m tools.transcripts [--check] FILE...

replay      the current output of a transcript: a text file in tests/golden/transcripts, or a Markdown page
session     the shell in which the commands of one transcript run
page        Markdown: blocks of ```console with commands, and files that the page lists
alike       compares outputs, except for parts that differ each time
"""
