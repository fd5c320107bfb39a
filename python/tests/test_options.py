"""The functions have the command's options under the same names, but for the differences listed here."""

import inspect
import re
import subprocess
import sys

import pytest
import robust_ot

#: Python's names of options whose own names are taken: a keyword of the language, and k of a metric.
RENAMED = {"lambda": "lam", "against": "documents", "top": "top_k"}
#: What the command needs because it reads and writes files; in Python the tables are chosen, weighted and written as arrays.
FILES = {"embeddings", "columns", "drop", "header", "missing", "weight_column", "json", "help", "version", "threads"}
#: Arguments of the functions that are not options of the command.
PLACES = {"X", "Y", "a", "b", "measures", "progress"}


def options(command):
    """The long options in the help of a command."""
    line = [sys.executable, "-m", "robust_ot", command, "--help"]
    text = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ +(?:-\w, +)?--([a-z0-9-]+)", text, flags=re.MULTILINE)
    return {RENAMED.get(name, name.replace("-", "_")) for name in found}


@pytest.mark.parametrize(
    ("command", "function", "only_command"),
    [
        # The weights are a and b; plan, metric and explanation are methods of the solution.
        ("distance", robust_ot.distance, {"source_weights", "target_weights", "plan_out", "metric_out", "run", "explain"}),
        # robust_ot.distributed.pairwise runs on Ray; the matrix has a method for its heatmap.
        ("pairwise", robust_ot.pairwise, {"ray", "out", "heatmap"}),
        ("nearest", robust_ot.nearest, {"out"}),
    ],
)
def test_distances_have_the_options_of_the_command(command, function, only_command):
    named = set(inspect.signature(function).parameters)
    assert options(command) - named == FILES | only_command
    assert named - options(command) <= PLACES


def test_the_classifier_has_the_options_of_the_command():
    sklearn = pytest.importorskip("sklearn")
    assert sklearn
    named = set(inspect.signature(robust_ot.RobustOTClassifier).parameters)
    #: Rows, labels and weights are the arguments of fit; files, samples, checkpoints and reports are the command's.
    data = {"train_x", "train_y", "test_x", "test_y", "mnist", "xmc", "label_names", "empty", "top_labels"}
    data |= {"sample_weights"}
    samples = {"per_class", "validation_per_class", "test_per_class"}
    output = {"out", "run", "checkpoint", "resume", "json", "help", "version", "threads"}
    #: The protocol of the paper, its initial weights and sums over a batch.
    paper = {"protocol", "init", "reduction", "group_seed"}
    only_command = options("train") - named
    assert only_command == data | samples | output | paper | {"seed"}
    assert named - options("train") == {"class_weight", "random_state", "verbose"}
