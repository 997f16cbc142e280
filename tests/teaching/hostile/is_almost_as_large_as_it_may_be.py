# Is almost as large as it may be.
# loses: nothing
# says: 
x = @@400000*1,@@1
