# Has many lines.
# loses: nothing
# says:
@@20000*x = 1
@@