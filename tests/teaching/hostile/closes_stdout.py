# Closes stdout.
# loses: nothing
# says:
sys.stdout.close()
