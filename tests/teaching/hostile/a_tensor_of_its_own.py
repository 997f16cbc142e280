# A tensor of its own.
# loses: nothing
# says:
class Mine(torch.Tensor):
    pass


def mean(x):
    return x.mean(-1).as_subclass(Mine)
