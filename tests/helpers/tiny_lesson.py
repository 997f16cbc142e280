"""A lesson of a page and its exercises, for tests of the course."""

import torch
from torch import Tensor, nn

from glassformer.teaching.exercise import Answer, Case, Function, Mistake, Module, equals

TEXT = '''---
title: A tiny lesson
number: 3
minutes: 0.5
slides: ["lecture-5: 3–9"]
misconception: A mean is not a sum.
run: runs/tiny
expects:
  loss: [0.1, 2]
---

# A tiny lesson

The mean of $`n`$ numbers.

```math
\\bar{x} = \\frac{1}{n} \\sum_i x_i
```

```python
import torch
from torch import nn
import glassformer as gf

lesson = gf.lesson("tiny")
```

## Exercise: the mean

```python
def mean(x):
    """The mean of the last axis."""
    ### BEGIN SOLUTION
    #- raise NotImplementedError("your turn")
    return x.sum(-1) / x.shape[-1]
    ### END SOLUTION
```

```python
lesson.check(mean=mean)
```


A cell of its own. Train:

```sh
glassformer train opinions --model bag --steps 3 --seed 0 --out runs/tiny
```

```python
for _ in range(10**9):
    torch.zeros(1)
```

## Exercise: a layer

```python
class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        ### BEGIN SOLUTION
        #- raise NotImplementedError("your turn")
        return x * self.weight
        ### END SOLUTION
```

```python
### BEGIN SOLUTION
#- largest = None  # your turn
largest = (1, 2)
### END SOLUTION
lesson.check(Layer=Layer, largest=largest)
```

```text
not a cell
```
'''


def mean(x: Tensor) -> Tensor:
    return x.mean(-1)


class Layer(nn.Module):
    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


EXERCISES = [
    Function(
        "mean",
        mean,
        [
            Case("of a vector", lambda drawn: (torch.randn(5, generator=drawn),)),
            Case("of rows", lambda drawn: (torch.randn(3, 7, generator=drawn),), points=2),
            Case("of one", lambda drawn: (torch.randn(3, 1, generator=drawn),), visible=False),
        ],
        [Mistake("this is the sum, which grows with the length", lambda x: x.sum(-1))],
    ),
    Module(
        "Layer",
        Layer,
        [
            Case(
                "and its gradients", lambda drawn: (torch.randn(2, 3, generator=drawn),), build={"width": 3}, learn=True
            )
        ],
    ),
    Answer("largest", equals((1, 2)), "the largest head, as (layer, head)"),
]
