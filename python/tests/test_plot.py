import re
from pathlib import Path

import numpy as np
import pytest
import robust_ot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from robust_ot import plot


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def test_pictures_show_what_they_should(rng):
    X, Y = rng.normal(size=(20, 4)), rng.normal(size=(15, 4)) + [0, 0, 2, 0]
    found = robust_ot.distance(X, Y)
    ax = plot.metric_heatmap(found, names=list("abcd"))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list("abcd")
    np.testing.assert_array_equal(ax.images[0].get_array(), found.metric)
    ax = plot.plan(found, X, Y)
    source, target = (points.get_offsets() for points in ax.collections[1:])
    assert (source.mean(axis=0) <= target.mean(axis=0)).all()
    assert len(ax.collections[0].get_paths()) == found.sparse_plan().nnz
    grouped = robust_ot.distance(X, Y, groups=2)
    assert plot.plan(grouped, X, Y, largest=5).get_legend() is not None
    ax = plot.simplex_contours(np.eye(3), truth=1, names=["cat", "dog", "truck"], resolution=20)
    assert [text.get_text() for text in ax.texts] == ["cat", "dog", "truck"]
    history = [{"epoch": i, "loss": 1 / i, "seconds": 0.1, "validation_auc": 0.5} for i in (1, 2)]
    ax = plot.learning_curves(history)
    assert ax.lines[0].get_ydata().tolist() == [1.0, 0.5]
    assert plot.metric_heatmap(np.zeros((2, 2))).images


@pytest.mark.parametrize(("name", "scale"), [("RdBu_r", "DIVERGING"), ("viridis", "SCALE")])
def test_the_command_and_the_package_have_the_same_colors(name, scale):
    text = (Path(__file__).parents[2] / "crates/rot-cli/src/picture/mod.rs").read_text()
    (table,) = re.findall(rf"const {scale}: .+?=\s*\[(.+?)\];", text, re.DOTALL)
    colors = np.array([[float(x) for x in color.split(",")] for color in re.findall(r"\((.+?)\)", table)])
    expected = 255 * matplotlib.colormaps[name](np.linspace(0, 1, len(colors)))[:, :3]
    np.testing.assert_allclose(colors, expected, atol=3)
