import json
import pickle
import re
import subprocess
import sys

import joblib
import numpy as np
import pytest

pytest.importorskip("sklearn")

from robust_ot import RobustOTClassifier, score
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import parametrize_with_checks


def unequal(estimator):
    """Checks of weights by repeated rows, which held-out rows and choices by the number of rows do not follow."""
    reason = "scores of held-out rows, and what depends on the number of rows, count every row once"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ["dense", "sparse"]}


@parametrize_with_checks(
    [RobustOTClassifier(), RobustOTClassifier("ce"), RobustOTClassifier("bce")], expected_failed_checks=unequal
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16, y, random_state=0)


@pytest.fixture(scope="module")
def tags():
    X, y = make_multilabel_classification(600, 30, n_classes=8, n_labels=3, random_state=0, allow_unlabeled=False)
    return train_test_split(X / X.max(), y, random_state=0)


def rot(*arguments):
    command = [sys.executable, "-m", "robust_ot._command", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def vectors_of_digits():
    """Digits on a circle: 9 is close to 0."""
    angles = 2 * np.pi * np.arange(10) / 10
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_it_trains_as_the_command_does_to_the_last_bit(digits, tmp_path):
    X, X_test, y, y_test = digits
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "v.npy", vectors_of_digits())
    common = {"lr": 0.01, "epochs": 20}
    for keywords in (
        {},
        {"loss": "ds", "lam": 2.0, "random_state": 3},
        {"loss": "ce", "label_smoothing": 0.1, "standardize": True},
    ):
        model = RobustOTClassifier(label_vectors=vectors_of_digits(), **common, **keywords).fit(X.astype(np.float32), y)
        options = []
        for name, value in {**common, **keywords}.items():
            name = {"lam": "lambda", "random_state": "seed"}.get(name, name.replace("_", "-"))
            options += [f"--{name}"] if value is True else [f"--{name}", value]
        rot("train", "--train-x", tmp_path / "x.npy", "--train-y", tmp_path / "y.npy",
            "--label-vectors", tmp_path / "v.npy", "--out", tmp_path / "m.safetensors", *options)  # fmt: skip
        theirs = RobustOTClassifier.load(tmp_path / "m.safetensors")
        np.testing.assert_array_equal(model.coef_, theirs.coef_)
        np.testing.assert_array_equal(model.intercept_, theirs.intercept_)
        np.testing.assert_array_equal(model.predict_proba(X_test), theirs.predict_proba(X_test))
        np.testing.assert_array_equal(theirs.classes_, np.arange(10))
        assert theirs.loss == keywords.get("loss", "mix")


def test_the_command_reads_its_models(digits, tmp_path):
    X, X_test, y, y_test = digits
    model = RobustOTClassifier(label_vectors=vectors_of_digits(), lr=0.01, epochs=10).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    np.save(tmp_path / "x.npy", X_test)
    np.save(tmp_path / "y.npy", y_test)
    told = json.loads(
        rot("evaluate", tmp_path / "m.safetensors", "--x", tmp_path / "x.npy", "--y", tmp_path / "y.npy", "--json")
    )
    again = RobustOTClassifier.load(tmp_path / "m.safetensors")
    found = score.all_scores(y_test, model.predict_proba(X_test), again.label_vectors)
    for name, value in found.items():
        assert told[name] == value, name
    assert told["accuracy"] == pytest.approx(model.score(X_test, y_test))
    np.testing.assert_array_equal(again.predict(X_test), model.predict(X_test))


def test_digits_are_learned_and_mistakes_are_near(digits):
    X, X_test, y, y_test = digits
    vectors = vectors_of_digits()
    keywords = {"label_vectors": vectors, "lr": 0.01, "epochs": 60, "validation": 0}
    mixed = RobustOTClassifier(**keywords).fit(X, y)
    plain = RobustOTClassifier("ce", **keywords).fit(X, y)
    assert mixed.score(X_test, y_test) > 0.93
    cost = lambda model: score.expected_cost(y_test, model.predict_proba(X_test), vectors)  # noqa: E731
    assert cost(mixed) < cost(plain)
    assert mixed.metric_.shape == (2, 2)
    assert plain.metric_ is None
    assert mixed.n_iter_ == len(mixed.history_)
    assert mixed.history_[0]["epoch"] == 1
    assert {"loss", "seconds"} <= set(mixed.history_[0])
    assert mixed.coef_.shape == (10, 64)


def test_many_labels(tags):
    X, X_test, y, y_test = tags
    for loss in ("mix", "ce", "bce", "kl"):
        model = RobustOTClassifier(loss, lr=0.05, epochs=100).fit(X, y)
        probabilities, predicted = model.predict_proba(X_test), model.predict(X_test)
        assert probabilities.shape == predicted.shape == y_test.shape
        assert set(np.unique(predicted)) <= {0, 1}
        assert score.auc(y_test, probabilities) > 0.75, loss
        f1 = 2 * (predicted * y_test).sum() / (predicted.sum() + y_test.sum())
        assert f1 > 0.6, loss
        assert 0 < model.threshold_ <= 1
        if loss != "bce":
            np.testing.assert_allclose(probabilities.sum(1), 1)


def test_sparse_rows_are_the_same_rows(tags):
    X, X_test, y, _ = tags
    X = np.where(X > 0.3, X, 0)
    dense = RobustOTClassifier(epochs=5).fit(X, y)
    for form in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_array):
        found = RobustOTClassifier(epochs=5).fit(form(X), sparse.csr_array(y))
        np.testing.assert_allclose(found.coef_, dense.coef_, atol=1e-5)
        np.testing.assert_allclose(found.predict_proba(form(X_test)), dense.predict_proba(X_test), atol=1e-5)
    reversed_columns = sparse.csr_matrix(X[:, ::-1])[:, ::-1]
    np.testing.assert_allclose(RobustOTClassifier(epochs=5).fit(reversed_columns, y).coef_, dense.coef_, atol=1e-5)


def test_it_works_with_the_rest_of_scikit_learn(digits):
    X, X_test, y, y_test = digits
    pipeline = make_pipeline(StandardScaler(), RobustOTClassifier(lr=0.01, epochs=10))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.85
    search = GridSearchCV(RobustOTClassifier(lr=0.01, epochs=5), {"mix_ot": [0.5, 5.0], "loss": ["mix", "kl"]}, cv=2, n_jobs=2)
    search.fit(X[:400], y[:400])
    assert search.best_params_["loss"] in ("mix", "kl")
    model = clone(pipeline).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X_test), model.predict_proba(X_test))


def test_frames_and_names(tags):
    pandas = pytest.importorskip("pandas")
    X, X_test, y, _ = tags
    names = [f"tag {label}" for label in "abcdefgh"]
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    vectors = {name: np.eye(8)[i] + 0.1 for i, name in enumerate(names)}
    pipeline = make_pipeline(StandardScaler(), RobustOTClassifier(label_vectors=vectors, epochs=3)).set_output(
        transform="pandas"
    )
    pipeline.fit(frame, pandas.DataFrame(y, columns=names))
    model = pipeline[-1]
    assert model.classes_.tolist() == names
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert pipeline.predict(frame).shape == y.shape
    strings = np.array(["cat", "dog", "truck"])[np.arange(len(X)) % 3]
    assert RobustOTClassifier(epochs=2).fit(frame, pandas.Series(strings)).classes_.tolist() == ["cat", "dog", "truck"]


def test_partial_fit_goes_on_after_a_pickle(digits):
    X, _, y, _ = digits
    whole, stopped = (RobustOTClassifier(lr=0.01, label_vectors=vectors_of_digits()) for _ in range(2))
    for at in range(0, 1200, 300):
        rows = slice(at, at + 300)
        whole.partial_fit(X[rows], y[rows], classes=np.arange(10))
        stopped.partial_fit(X[rows], y[rows], classes=np.arange(10))
        stopped = pickle.loads(pickle.dumps(stopped))
    np.testing.assert_array_equal(whole.coef_, stopped.coef_)
    assert whole.n_iter_ == stopped.n_iter_ == 4
    for _ in range(10):
        whole.partial_fit(X, y)
    assert whole.score(X, y) > 0.9


def test_one_pass_is_one_epoch(digits):
    X, _, y, _ = digits
    keywords = {"lr": 0.01, "epochs": 1, "validation": 0, "batch": 150}
    np.testing.assert_array_equal(
        RobustOTClassifier(**keywords).fit(X, y).coef_,
        RobustOTClassifier(**keywords).partial_fit(X, y, classes=np.arange(10)).coef_,
    )


def test_models_are_the_same_in_any_process(digits):
    X, _, y, _ = digits
    fit = lambda: RobustOTClassifier(epochs=3).fit(X, y).coef_  # noqa: E731
    for backend in ("threading", "loky"):
        found = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(_fit)(X, y) for _ in range(3))
        for other in found:
            np.testing.assert_array_equal(other, fit())


def _fit(X, y):
    return RobustOTClassifier(epochs=3).fit(X, y).coef_


def test_words_can_be_looked_up(digits, tmp_path):
    X, _, y, _ = digits
    names = "zero one two three four five six seven eight nine".split()
    (tmp_path / "words.vec").write_text("".join(f"{name} {i} {10 - i} 1\n" for i, name in enumerate(names)))
    model = RobustOTClassifier(label_vectors=tmp_path / "words.vec", epochs=2).fit(X, np.array(names)[y])
    assert sorted(model.classes_) == sorted(names)
    with pytest.raises(ValueError, match="a vector for every label, but 1 have none: ten"):
        RobustOTClassifier(label_vectors=tmp_path / "words.vec").fit(X, np.where(y == 3, "ten", np.array(names)[y]))
    with pytest.raises(FileNotFoundError, match="none.vec"):
        RobustOTClassifier(label_vectors=tmp_path / "none.vec").fit(X, y)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"loss": "hinge"}, "loss must be mix, ce, bce, asl, square, p, .* or rkp, but is hinge"),
        ({"lr": -1.0}, "lr must be positive and finite, but is -1"),
        ({"batch": 0}, "batch must be at least 1, but is 0"),
        ({"epochs": 0}, "epochs must be at least 1, but is 0"),
        ({"hidden": 0}, "hidden must be at least 1, but is 0"),
        ({"hidden": 8, "dropout": 1.0}, "dropout must be from 0 to less than 1, but is 1"),
        ({"hidden": 8, "input_dropout": -0.5}, "input_dropout must be from 0 to less than 1, but is -0.5"),
        ({"dropout": 0.5}, "dropout must go with a hidden layer, but hidden is not given"),
        ({"hidden": 8, "optimizer": "lbfgs"}, "hidden must go with the optimizer adam, adamw or sgd, but it is lbfgs"),
        ({"hidden": 8, "device": "cuda"}, "device must be cpu or auto with a hidden layer"),
        ({"loss": "asl", "asl_margin": 1.0}, "asl_margin must be from 0 to less than 1, but is 1"),
        ({"loss": "asl", "optimizer": "lbfgs"}, "loss must be convex for the optimizer lbfgs"),
        ({"mix_ot": -1.0}, "mix_ot must be finite and not negative, but is -1"),
        ({"loss": "ce", "mix_ot": 1.0}, "mix_ot must go with a loss that has transport, but the loss is ce"),
        ({"groups": 0}, "groups must be at least 1, but is 0"),
        ({"groups": 11}, "groups must be between 1 and the number of features, 10, but is 11"),
        ({"entropy": 0.0}, "entropy must be between"),
        ({"momentum": 0.9}, "momentum must go with the optimizer sgd, but it is adam"),
        ({"validation": 2.0}, "validation must be a fraction of"),
        ({"label_smoothing": 2.0}, "label_smoothing must be from 0 to 1"),
        ({"label_vectors": np.eye(3)}, r"one row per label, 10, but has shape \(3, 3\)"),
        ({"label_vectors": {"0": [1.0]}}, "but 9 have none: 1, 2"),
        ({"label_vectors": np.full((10, 2), np.nan)}, "label_vectors|finite"),
        ({"lam": 0.0, "loss": "kl"}, "lam must be positive and finite"),
    ],
)
def test_bad_parameters_are_named(digits, keywords, message):
    X, _, y, _ = digits
    with pytest.raises(ValueError, match=message):
        RobustOTClassifier(**keywords).fit(X, y)


def test_a_hidden_layer_is_fitted_saved_and_loaded(digits, tmp_path):
    X, held, y, truth = digits
    model = RobustOTClassifier("ce", hidden=64, epochs=20, lr=0.005, dropout=0.25).fit(X, y)
    assert model.score(held, truth) > 0.9
    assert model.coef_.shape == (10, 64)
    model.save(tmp_path / "deep.safetensors")
    loaded = RobustOTClassifier.load(tmp_path / "deep.safetensors")
    assert loaded.n_features_in_ == X.shape[1]
    assert (loaded.hidden, loaded.dropout, loaded.input_dropout, loaded.optimizer) == (64, 0.25, 0.2, "adamw")
    np.testing.assert_array_equal(loaded.predict_proba(held), model.predict_proba(held))
    again = loaded.set_params(label_vectors=None, epochs=20).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(held), model.predict_proba(held))
    with pytest.raises(ValueError, match="hidden must be absent where rows arrive in parts, but is 64"):
        RobustOTClassifier(hidden=64).partial_fit(X, y, classes=np.arange(10))
    with pytest.raises(ValueError, match="trained by lbfgs|vectors of its label names"):
        model.extend([10], {"10": [1.0, 0.0]})


def test_the_asymmetric_loss_is_recorded(tags, tmp_path):
    X, _, Y, _ = tags
    model = RobustOTClassifier("asl", asl_margin=0.1, epochs=3).fit(X, Y)
    model.save(tmp_path / "asl.safetensors")
    loaded = RobustOTClassifier.load(tmp_path / "asl.safetensors")
    assert (loaded.loss, loaded.asl_positive, loaded.asl_negative, loaded.asl_margin) == ("asl", 0.0, 4.0, 0.1)


def test_weights_are_repeated_rows(digits):
    X, held, y, _ = digits
    times = np.arange(len(X)) % 3
    given = {"l2": 1.0, "label_prior": "none", "standardize": False, "row_length": None, "validation": 0.0}
    for loss in ["ce", "bce", "square"]:
        weighted = RobustOTClassifier(loss, **given).fit(X, y, sample_weight=times)
        repeated = RobustOTClassifier(loss, **given).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        np.testing.assert_allclose(weighted.predict_proba(held), repeated.predict_proba(held), atol=4e-3)
    kept = (y > 3) | (np.arange(len(y)) % 5 == 0)
    X, y = X[kept], y[kept]
    balanced = RobustOTClassifier("ce", class_weight="balanced", **given).fit(X, y)
    weights = compute_sample_weight("balanced", y)
    by_hand = RobustOTClassifier("ce", **given).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(balanced.predict_proba(held), by_hand.predict_proba(held))
    theirs = LogisticRegression(C=1.0, class_weight="balanced", max_iter=10_000, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(balanced.predict_proba(held), theirs.predict_proba(held), atol=2e-3)


def test_bad_weights_are_named(digits, tags):
    X, _, y, _ = digits
    for weights, message in [
        (np.ones(3), r"sample_weight must have one number per row, \d+, but has shape \(3,\)"),
        (-np.ones(len(X)), "sample_weight must be finite and not negative, but is -1 in row 1"),
        (np.zeros(len(X)), "sample_weight must be positive in some row"),
    ]:
        with pytest.raises(ValueError, match=message):
            RobustOTClassifier("ce", epochs=1).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="class_weight must be None, 'balanced' or weights by class, but is 'even'"):
        RobustOTClassifier(class_weight="even").fit(X, y)
    with pytest.raises(ValueError, match="class_weight must be None for rows with several labels"):
        RobustOTClassifier(class_weight="balanced").fit(tags[0], tags[2])
    with pytest.raises(ValueError, match="class_weight must be None where rows arrive in parts"):
        RobustOTClassifier(class_weight="balanced").partial_fit(X, y, classes=np.arange(10))


def test_bad_rows_are_named(digits, tags):
    X, _, y, _ = digits
    with pytest.warns(UserWarning, match="1 of 3 rows have no label and are left out"):
        RobustOTClassifier(epochs=1).fit([[0.0], [1.0], [2.0]], [[1, 0], [0, 0], [1, 1]])
    with pytest.raises(ValueError, match="y must give at least one row a label"):
        RobustOTClassifier(epochs=1).fit([[0.0], [1.0]], [[0, 0], [0, 0]])
    with pytest.raises(ValueError, match="at least 2 classes"):
        RobustOTClassifier().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="features must be finite|too large"):
        RobustOTClassifier(epochs=1).fit(np.where(X > 0.9, 1e300, X), y)
    with pytest.raises(ValueError, match="classes must be given"):
        RobustOTClassifier().partial_fit(X, y)
    model = RobustOTClassifier().partial_fit(X, y, classes=np.arange(10))
    with pytest.raises(ValueError, match="known classes, but one label is 10"):
        model.partial_fit(X, y + 2)
    with pytest.raises(ValueError, match="target_geometry must be names where rows arrive in parts"):
        RobustOTClassifier(target_geometry="rows", target_transport=0.1).partial_fit(X, y, classes=np.arange(10))
    with pytest.raises(ValueError, match="geometry must be names where rows arrive in parts"):
        RobustOTClassifier(geometry="rows").partial_fit(X, y, classes=np.arange(10))
    with pytest.raises(ValueError, match="must be a robust-ot model"):
        RobustOTClassifier.load(__file__)


def test_damaged_files_are_refused_and_files_without_a_checksum_warn(digits, tmp_path):
    X, _, y, _ = digits
    model = RobustOTClassifier("ce", epochs=2).fit(X, y)
    path = tmp_path / "m.safetensors"
    model.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match="is damaged: its checksum is not that of its contents"):
        RobustOTClassifier.load(path)
    # Format version 1 had no checksum; a header may end in spaces.
    end = 8 + int.from_bytes(whole[:8], "little")
    header = re.sub(rb'\\"checksum\\":\\"[0-9a-f]{64}\\",', b"", whole[8:end])
    header = header.replace(rb"\"version\":2", rb"\"version\":1").ljust(end - 8)
    path.write_bytes(whole[:8] + header + whole[end:])
    with pytest.warns(UserWarning, match=r"m\.safetensors: has no checksum \(format version 1\)") as caught:
        loaded = RobustOTClassifier.load(path)
    assert caught[0].filename == __file__
    assert np.array_equal(loaded.predict(X), model.predict(X))
    # Saving it again adds a checksum.
    loaded.save(path)
    assert path.read_bytes() == whole


def test_partial_fit_goes_on_from_fit_and_from_a_file(digits, tmp_path):
    X, _, y, _ = digits
    model = RobustOTClassifier(lr=0.01, epochs=20).fit(X, y)
    size = np.linalg.norm(model.coef_)
    model.save(tmp_path / "m.safetensors")
    for again in (model, RobustOTClassifier.load(tmp_path / "m.safetensors").set_params(lr=0.01)):
        again.partial_fit(X[:150], y[:150])
        assert np.linalg.norm(again.coef_) == pytest.approx(size, rel=0.2)


def test_partial_fit_does_not_go_on_from_standardized_weights(digits, tmp_path):
    X, _, y, _ = digits
    RobustOTClassifier(standardize=True, epochs=2).fit(X, y).save(tmp_path / "m.safetensors")
    loaded = RobustOTClassifier.load(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="standardize must be off where rows arrive in parts, but is on"):
        loaded.partial_fit(X, y)
    with pytest.raises(ValueError, match="the model must be without standardization"):
        loaded.set_params(standardize=False).partial_fit(X, y)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_one_length_are_those_of_a_normalizer(digits, tmp_path, sparse):
    from scipy.sparse import csr_matrix
    from sklearn.preprocessing import normalize

    X, X_test, y, _ = digits
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    X[3] = 0
    own, unit = X, np.float32(0.1) * normalize(X)
    if sparse:
        own, unit = csr_matrix(own), csr_matrix(unit)
    with pytest.warns(UserWarning, match="1 of .* training rows are zero"):
        model = RobustOTClassifier(row_length=0.1, epochs=5, validation=0.0).fit(own, y)
    usual = RobustOTClassifier(epochs=5, validation=0.0).fit(unit, y)
    np.testing.assert_allclose(model.coef_, usual.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X_test), usual.predict_proba(np.float32(0.1) * normalize(X_test)), atol=1e-4)
    model.save(tmp_path / "m.safetensors")
    again = RobustOTClassifier.load(tmp_path / "m.safetensors")
    assert again.row_length == 0.1
    np.testing.assert_array_equal(again.predict_proba(X_test), model.predict_proba(X_test))
    again.partial_fit(own, y)
    with pytest.raises(ValueError, match="row_length must be that of the fitted model, 0.1, but is 2"):
        again.set_params(row_length=2.0).partial_fit(own, y)
    with pytest.raises(ValueError, match="row_length must be positive and finite, but is 0"):
        RobustOTClassifier(row_length=0.0).fit(X, y)


def test_partial_fit_scales_its_rows(digits):
    from sklearn.preprocessing import normalize

    X, X_test, y, _ = digits
    model, usual = RobustOTClassifier(row_length=3.0), RobustOTClassifier()
    for _ in range(3):
        model.partial_fit(X, y, classes=np.arange(10))
        usual.partial_fit(3 * normalize(X), y, classes=np.arange(10))
    np.testing.assert_allclose(model.coef_, usual.coef_, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(X_test), usual.decision_function(3 * normalize(X_test)), atol=1e-3)


def test_fit_forgets_and_parameters_count_from_the_next_pass_on(digits):
    X, _, y, _ = digits
    model = RobustOTClassifier(lr=0.01).partial_fit(X, y, classes=np.arange(10))
    pickled = pickle.dumps(model)
    assert pickle.dumps(model) == pickled  # and the model is unchanged
    model = pickle.loads(pickled)
    model.fit(X[:, :30], y).partial_fit(X[:, :30], y)
    assert model.coef_.shape == (10, 30)
    assert model.n_iter_ == 1
    for way in (lambda m: m, lambda m: pickle.loads(pickle.dumps(m))):
        model = way(RobustOTClassifier(lr=0.1, batch=2000).partial_fit(X, y, classes=np.arange(10)))
        before = model.coef_.copy()
        model.set_params(lr=1e-6).partial_fit(X, y)
        assert np.abs(model.coef_ - before).max() < 1e-5


def test_a_failed_fit_changes_nothing(digits):
    from sklearn.exceptions import NotFittedError

    X, X_test, y, _ = digits
    model = RobustOTClassifier("nope")
    with pytest.raises(ValueError, match="nope"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model = RobustOTClassifier(epochs=2).fit(X, y)
    before = model.predict(X_test)
    with pytest.raises(ValueError, match="lr must be"):
        model.set_params(lr=-1).fit(X, y > 4)
    np.testing.assert_array_equal(model.predict(X_test), before)


@pytest.mark.parametrize(
    "classes",
    [[-1, 0, 1], [False, True], ["1", "10", "2"], ["¹", "²", "³"], [0.5, 1.5, 2.5], ["cat", "dog", "ß"]],
)
def test_classes_survive_a_file(rng, tmp_path, classes):
    y = np.array(classes)[np.arange(60) % len(classes)]
    X = rng.normal(size=(60, 4))
    if y.dtype.kind == "f":
        y = y.astype(str)
    model = RobustOTClassifier(epochs=3).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    again = RobustOTClassifier.load(tmp_path / "m.safetensors")
    assert again.classes_.dtype.kind == model.classes_.dtype.kind
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_many_labels_survive_a_file_after_partial_fit(tags, tmp_path):
    X, X_test, y, _ = tags
    model = RobustOTClassifier(lr=0.05)
    for _ in range(30):
        model.partial_fit(X, y)
    model.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(RobustOTClassifier.load(tmp_path / "m.safetensors").predict(X_test), model.predict(X_test))


def test_files_and_arrays_where_they_do_not_belong(digits):
    X, _, y, _ = digits
    with pytest.raises(FileNotFoundError, match="nowhere"):
        RobustOTClassifier("kl", prior="/nowhere").fit(X, y)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        RobustOTClassifier(grouping="/nowhere").fit(X, y)
    with pytest.raises(ValueError, match="prior must be"):
        RobustOTClassifier("kl", prior=np.eye(3)).fit(X, y)
    with pytest.raises(ValueError, match="grouping must be whole numbers"):
        RobustOTClassifier(grouping=[0.5] * 10).fit(X, y)
    same = [RobustOTClassifier("kl", prior=prior, epochs=1).fit(X, y).coef_ for prior in ("eye", np.eye(10))]
    np.testing.assert_array_equal(*same)
    groups = [{"groups": 5}, {"grouping": np.repeat(range(5), 2)}]
    same = [RobustOTClassifier(epochs=1, **keywords).fit(X, y).coef_ for keywords in groups]
    np.testing.assert_array_equal(*same)
    by_parts = RobustOTClassifier(grouping=np.repeat(range(5), 2))
    for _ in range(2):
        by_parts.partial_fit(X, y, classes=range(10))
    assert by_parts.n_iter_ == 2
    with pytest.warns(UserWarning, match="prior has no effect with auto"):
        RobustOTClassifier(prior="ones", epochs=1).fit(X, y)
    huge = RobustOTClassifier(label_vectors=vectors_of_digits() * 1e200, epochs=2).fit(X, y)
    usual = RobustOTClassifier(label_vectors=vectors_of_digits(), epochs=2).fit(X, y)
    np.testing.assert_allclose(huge.coef_, usual.coef_, atol=1e-6)


def test_a_loaded_model_has_the_parameters_it_was_trained_with(digits, tmp_path):
    X, _, y, _ = digits
    asked = {
        "loss": "kl",
        "lam": 0.7,
        "prior": "ones",
        "groups": 2,
        "mix_ce": 2.0,
        "entropy": 0.5,
        "target_transport": 0.1,
        "label_smoothing": 0.05,
        "optimizer": "sgd",
        "momentum": 0.5,
        "lr": 0.01,
        "epochs": 3,
        "row_length": 2.0,
        "random_state": 4,
    }
    model = RobustOTClassifier(label_vectors=np.eye(10), validation=0.0, **asked).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    loaded = RobustOTClassifier.load(tmp_path / "model.safetensors")
    found = loaded.get_params()
    assert {name: found[name] for name in asked} == asked
    np.testing.assert_array_equal(loaded.set_params(validation=0.0).fit(X, y).coef_, model.coef_)


def test_a_loaded_model_can_be_fitted_to_other_classes(digits, tmp_path):
    X, _, y, _ = digits
    RobustOTClassifier(epochs=1).fit(X, y).save(tmp_path / "model.safetensors")
    few = RobustOTClassifier.load(tmp_path / "model.safetensors").fit(X, y % 3)
    assert few.coef_.shape[0] == 3
    RobustOTClassifier(epochs=1, grouping=[0, 1] * 5).fit(X, y).save(tmp_path / "model.safetensors")
    assert RobustOTClassifier.load(tmp_path / "model.safetensors").grouping.tolist() == [0, 1] * 5


def _families(rows: int = 300, seed: int = 3):
    """Rows of six classes in two families, and vectors that say so; the last class has no row."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(6, 12)) + 2 * np.repeat(rng.normal(size=(2, 12)), 3, axis=0)
    y = rng.integers(5, size=rows)
    X = centers[y] + 2 * rng.normal(size=(rows, 12))
    vectors = np.repeat(np.eye(2, 4), 3, axis=0) + 0.1 * rng.normal(size=(6, 4))
    return X, y, {str(label): vectors[label] for label in range(6)}


def test_everything_is_chosen_on_held_out_rows_and_what_is_given_is_kept():
    X, y, vectors = _families()
    model = RobustOTClassifier(label_vectors=vectors).fit(X, y)
    best = max(model.tried_, key=lambda tried: tried["auc"] + tried["map"] + tried["precision_at_1"])
    about = model._model.about
    assert (best["loss"], best["prior"], best["l2"]) == (about["loss"], about["prior"], about["l2"])
    losses = {tried["loss"] for tried in model.tried_}
    sums = {loss for loss in losses if "+" in loss}
    assert losses - sums == {"ce", "bce", "square"}
    assert all(word in ("+", "bce", "square") or 0 < float(word) < 1 for loss in sums for word in loss.split())
    assert {tried["prior"]["geometry"] for tried in model.tried_} == {"none", "names", "rows", "both"}
    fixed = RobustOTClassifier("bce", label_vectors=vectors, label_prior="rows", l2=2.0, row_length=None).fit(X, y)
    about = fixed._model.about
    assert (about["loss"], about["l2"], about["prior"]["geometry"]) == ("bce", 2.0, "rows")
    assert all(tried["row_length"] is None for tried in fixed.tried_)


def test_answers_of_least_cost():
    X, y, vectors = _families()
    model = RobustOTClassifier(label_vectors=vectors).fit(X, y)
    unit = np.array([vectors[name] / np.linalg.norm(vectors[name]) for name in map(str, model.classes_)])
    expected = 1 - model.predict_proba(X) @ unit @ unit.T
    found = model.predict_least_cost(X, 2)
    assert found.shape == (len(X), 2)
    chosen = expected[np.arange(len(X)), np.searchsorted(model.classes_, found[:, 0])]
    np.testing.assert_allclose(chosen, expected.min(1), atol=1e-9)
    with pytest.raises(ValueError, match="k must be between 1 and the 5 labels, but is 9"):
        model.predict_least_cost(X, 9)
    with pytest.raises(ValueError, match="needs a model with label_vectors"):
        RobustOTClassifier("ce", l2=1.0).fit(X, y).predict_least_cost(X)


def test_ridge_is_that_of_scikit_learn():
    X, y, _ = _families()
    model = RobustOTClassifier("square", label_prior="none", l2=3.0, row_length=None, validation=0).fit(X, y)
    ridge = Ridge(alpha=3.0).fit(X, np.eye(5)[y])
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-5)


@pytest.mark.parametrize(("loss", "penalty"), [("ce", 5.0), ("bce", 0.7)])
def test_plain_l2_is_that_of_scikit_learn(loss, penalty):
    X, y, _ = _families()
    model = RobustOTClassifier(loss, label_prior="none", l2=penalty, row_length=None, validation=0).fit(X, y)
    logistic = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=10_000)
    if loss == "ce":
        expected = logistic.fit(X, y).coef_
    else:
        expected = np.stack([logistic.fit(X, y == label).coef_[0] for label in range(5)])
    # A softmax is the same for all weights that differ by the same vector; the penalty makes their mean zero.
    np.testing.assert_allclose(model.coef_, expected, atol=2e-3 * np.abs(expected).max())


def test_classes_without_rows_are_added_with_the_weights_of_classes_like_them(tmp_path):
    X, y, vectors = _families()
    known = {name: vector for name, vector in vectors.items() if name != "5"}
    model = RobustOTClassifier("ce", label_vectors=known, label_prior="names").fit(X, y)
    before = model.coef_.copy()
    model.extend([5], {"5": vectors["5"]})
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(model.coef_[:5], before)
    # Classes 3 and 4 are of its family, 0 to 2 of the other.
    own = [np.dot(model.coef_[5], model.coef_[label]) for label in range(5)]
    assert min(own[3:]) > max(own[:3])
    assert set(model.predict(X)) <= set(range(6))
    model.save(tmp_path / "more.safetensors")
    again = RobustOTClassifier.load(tmp_path / "more.safetensors")
    assert again.get_params()["label_prior"] == "names"
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="must be a list of kind 'i'"):
        model.extend(["five"], {"five": vectors["5"]})
    with pytest.raises(ValueError, match="5"):
        model.extend([5], {"5": vectors["5"]})
    with pytest.raises(ValueError, match="must have vectors of its label names"):
        RobustOTClassifier().fit(X, y).extend([5], {"5": vectors["5"]})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"l2": 0.0}, "l2 must be positive and finite, but is 0"),
        ({"prior_free": -1.0}, "prior_free must be finite and not negative"),
        ({"label_prior": "near"}, "label_prior must be none, names, rows or both, but is near"),
        ({"label_prior": "names"}, "label_prior must be none or rows without label vectors"),
        ({"optimizer": "lbfgs", "epochs": 3}, "epochs must go with the optimizer adam, adamw or sgd"),
        ({"optimizer": "adam", "l2": 1.0}, "l2 must go with the optimizer lbfgs"),
        ({"optimizer": "adam", "loss": "square"}, "loss must be another than square"),
    ],
)
def test_parameters_of_the_other_method_are_refused(parameters, message):
    X, y, _ = _families(60)
    with pytest.raises(ValueError, match=message):
        RobustOTClassifier(**parameters).fit(X, y)


def test_rows_that_arrive_in_parts_have_no_prior():
    X, y, _ = _families(60)
    with pytest.raises(ValueError, match="where rows arrive in parts"):
        RobustOTClassifier(l2=1.0).partial_fit(X, y, classes=np.arange(5))
    with pytest.raises(ValueError, match="optimizer must be adam or sgd"):
        RobustOTClassifier(optimizer="lbfgs").partial_fit(X, y, classes=np.arange(5))


def test_parts_continue_from_what_was_chosen():
    X, y, vectors = _families()
    model = RobustOTClassifier(label_vectors={name: vectors[name] for name in "01234"}, standardize=False).fit(X, y)
    chosen, before = model._model.about, model.score(X, y)
    for _ in range(3):
        model.partial_fit(X, y)
    about = model._model.about
    assert about["loss"] == ("ce" if chosen["loss"] == "ce" else "bce")
    assert model.n_iter_ == 3
    assert abs(model.score(X, y) - before) < 0.1
