# Replaces open and print.
# loses: nothing
# says:
import builtins

builtins.open = builtins.print = builtins.len = None
