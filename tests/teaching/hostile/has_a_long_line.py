# Has a line of 100,000 numbers.
# loses: nothing
# says:
x = @@100000*1,@@1
