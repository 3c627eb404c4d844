"""Cases of a test that takes seconds: the first ones run in `make test`, the others are proofs."""

import pytest


def few(name, values, count=1):
    """`parametrize` with marks: `few("isolation", ["fork", "process"])` has one case in the first tier."""
    values = list(values)
    proofs = [pytest.param(value, marks=pytest.mark.proof) for value in values[count:]]
    return pytest.mark.parametrize(name, [*values[:count], *proofs])
