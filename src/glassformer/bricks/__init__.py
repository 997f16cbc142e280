"""The lectures' building blocks, one file a brick.

Notation, here and everywhere: B batch, T tokens, S tokens of a second sequence, d width, h heads, V vocabulary.
Shapes are types; the tests check them at run time. A mask is True where a real token stands.

The linear map y = Wx + b is `torch.nn.Linear`, dropout is `torch.nn.Dropout`: where torch has the brick, it is the
brick.
"""
