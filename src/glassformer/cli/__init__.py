"""The command line: verb first, then options and arguments in any order."""
