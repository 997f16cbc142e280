# Is larger than a file of Python may be.
# loses: all
# says: more than the limit of 1.0 MiB: --limit submission_bytes=
x = @@600000*1,@@1
