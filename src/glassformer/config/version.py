"""Of this glassformer; runs say which one made them."""

VERSION = "0.1.0"
