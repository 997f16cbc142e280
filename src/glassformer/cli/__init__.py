"""The command line: a verb first, then options and arguments in any order."""
