# Takes a tensor of 10 GB.
# loses: nothing
# says: out of memory
x = torch.ones(10 * 2**28)
