"""Command line: thin commands that parse, call and print."""
