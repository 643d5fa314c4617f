"""Transcripts: commands and what they say, kept true by running them again.

    python -m tools.transcripts [--check] FILE...

replay      what a transcript says now: of a text file in tests/golden/transcripts, or of a Markdown page for readers
session     the shell that the commands of one transcript run in
page        Markdown: blocks of ```console, files that the page tells to write, and the commands in them
alike       whether two outputs are the same but for what is another each time
"""
