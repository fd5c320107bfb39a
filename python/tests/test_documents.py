"""Examples in docstrings run, and every public object has one."""

import doctest
import importlib
import inspect

import pytest
import robust_ot
import robust_ot.pot

PARTS = (
    "score", "_compare", "_comparison", "_distance", "_drift", "_neighbors", "pot", "_pot_exact", "_pot_entropic", "_pot_solve",
    "_pot_result", "_pot_dist", "_pot_line", "_solution", "_loss", "_vectors", "_classifier", "torch",
    "_barycenter", "_torch_distance",
)  # fmt: skip
MODULES = ["robust_ot", *(f"robust_ot.{name}" for name in PARTS)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    needs = {"robust_ot._classifier": "sklearn", "robust_ot.torch": "torch", "robust_ot._torch_distance": "torch"}
    if name in needs:
        pytest.importorskip(needs[name])
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert tried > 0


def test_every_public_thing_is_documented_with_an_example():
    pytest.importorskip("sklearn")
    things = [(name, getattr(robust_ot, name)) for name in robust_ot.__all__ if name not in ("__version__", "score")]
    things += [(f"score.{name}", getattr(robust_ot.score, name)) for name in robust_ot.score.__all__]
    things += [(f"pot.{name}", getattr(robust_ot.pot, name)) for name in robust_ot.pot.__all__]
    for name, thing in things:
        assert inspect.getdoc(thing), name
        without = (
            "Barycenter",
            "ConvergenceWarning",
            "Distances",
            "Gradient",
            "Neighbors",
            "set_threads",
            "get_threads",
            "pot.CooTuple",
            "pot.InputError",
        )
        if name not in without:
            assert ">>>" in inspect.getdoc(thing), name
