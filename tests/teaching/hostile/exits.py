# Exits.
# loses: nothing
# says: ends the program
raise SystemExit
