"""A scikit-learn classifier for single-label and multi-label rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted, validate_data

from robust_ot import _core
from robust_ot._columns import in_order
from robust_ot._labels import Labels, complete, unit_vectors, with_labels

#: Parameters that the core takes as they are.
_KEYWORDS = (
    "loss",
    "mix_ce",
    "mix_ot",
    "mix_base",
    "asl_positive",
    "asl_negative",
    "asl_margin",
    "k",
    "rho",
    "lam",
    "prior",
    "grouping",
    "entropy",
    "oracle_entropy",
    "fw_iterations",
    "sinkhorn_iterations",
    "loss_tolerance",
    "geometry",
    "target_transport",
    "target_temperature",
    "target_metric",
    "target_geometry",
    "label_smoothing",
    "label_prior",
    "prior_temperature",
    "prior_free",
    "l2",
    "hidden",
    "dropout",
    "input_dropout",
    "standardize",
    "row_length",
    "optimizer",
    "momentum",
    "lr",
    "schedule",
    "batch",
    "epochs",
    "weight_decay",
    "bias",
    "validation",
    "select",
    "patience",
    "device",
    "precision",
)
#: Maximum number of training rows that ``metric_`` averages over.
METRIC_ROWS = 50


class TrainingRows(NamedTuple):
    """Rows and labels in the form of the core."""

    X: Any
    first: Any
    """The rows that ``metric_`` averages over."""
    targets: Any
    labels: Labels
    vectors: Any
    weights: NDArray[np.float32] | None


class RobustOTClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc, unused-ignore]
    r"""A model, linear or with a hidden layer, trained with robust optimal transport between predictions and true labels.

    By default, held-out rows choose the loss, the scaling of the features, a prior by which near labels share weights, and
    the strength of L2; then the penalized loss of all rows is minimized to its optimum. With ``loss='mix'``, cross-entropy
    + 5 · W_P is minimized in stochastic steps, where W_P is the robust distance from a prediction to its true labels with
    the label vectors as points, so that mistakes become near misses. The parameters are the options of ``rot train``, and
    the model files are its files: :meth:`save` writes what ``rot predict`` reads, and :meth:`load` reads what ``rot train``
    writes.

    Parameters
    ----------
    loss : {'auto', 'ce', 'bce', 'asl', 'square', 'mix', 'p', 'p-power', 'kl', 'ds', 'w2', 'features', 'srw', 'rkp'}
        The loss; ``auto`` chooses among ``ce``, ``bce`` and ``square`` on held-out rows, or is ``mix`` with ``adam`` and
        ``sgd``. ``asl`` is the asymmetric loss, binary cross-entropy with a focus on labels that are hard, for rows with
        several labels, in stochastic steps. The name of a metric set trains with transport alone unless ``mix_ce`` is given.
    label_vectors : array-like of shape (L, d), mapping, path, optional
        The geometry of the labels: one row per label in the order of ``classes_``, a mapping from name to vector, or a file
        of word vectors. One-hot vectors by default.
    missing : {'error', 'zero', 'drop'}
        What :meth:`fit` does about labels without a vector: refuse and list them, give them the zero vector, or leave them
        and the rows that have no other label out.
    mix_ce, mix_ot : float, optional
        Weights of ``mix_base`` and of transport; by default 1 and 5 with ``mix``, 0 and 1 with the name of a metric set.
    mix_base : {'ce', 'asl'}
        What transport is mixed with; with ``asl``, probabilities are those of a sigmoid.
    asl_positive, asl_negative, asl_margin : float, optional
        Parameters of ``asl``: the power of 1 − p for true labels, the power of p − margin for others, and the probability up
        to which a label that is not true costs nothing; by default 0, 4 and 0.05.
    k, rho, lam, prior
        Parameters of the metric set, as for :func:`robust_ot.distance`; a prior may also be a path.
    groups : int or 'auto'
        Number of groups of the label vectors' features; ``auto`` uses 10 if the metric would otherwise be large.
    grouping : {'contiguous', 'interleaved', 'random'}, path or array-like, optional
        How the features are grouped.
    entropy : float
        Weight of the entropy of the plan in the loss.
    oracle_entropy : float, optional
        Regularization of the inner linear problems, if different from ``entropy``.
    fw_iterations, sinkhorn_iterations : int, optional
        Maximum number of iterations per loss and per linear problem; rows with one label need none.
    loss_tolerance : float, optional
        Relative gap of the transport of rows with several labels; see :func:`loss_gradient`.
    geometry, target_geometry : {'names', 'rows'}
        Whether the label vectors or the training rows define which labels are close, for the loss and for the targets.
    target_transport, target_temperature, target_metric
        How much of each true label's mass moves to nearby labels in the cross-entropy targets, how far, and by which metric.
    label_smoothing : float
        Fraction of the target mass that is spread evenly over all labels.
    label_prior : {'auto', 'none', 'names', 'rows', 'both'}
        What defines which labels share weights: ``label_vectors``, the mean training rows of the labels, or the mean of
        both kernels; ``auto`` chooses on held-out rows. With ``lbfgs``, or for the last layer with ``hidden``, where ``auto``
        is ``names`` if there are label vectors.
    prior_temperature, prior_free : float, optional
        τ and η of the kernel (exp(-C/τ) + η I) / (1 + η) between labels, the covariance of the prior; chosen on held-out
        rows by default, 0.5 and 1 with ``hidden``.
    l2 : float or 'auto'
        λ of the penalty λ/2 tr(W K⁻¹ Wᵀ), added to the summed losses of all rows; ``auto`` chooses on held-out rows. With
        ``lbfgs`` only.
    hidden : int, optional
        Number of units of a hidden layer ReLU(X V + c); None for a linear model. It is trained in steps, by ``adamw`` unless
        ``optimizer`` is given, and the label prior applies to the weights of the labels, with the strength ``weight_decay``.
        :meth:`partial_fit`, :meth:`extend`, Ray datasets and GPUs take linear models alone.
    dropout, input_dropout : float, optional
        Fractions of the hidden units and of the features that a step leaves out; 0.5 and 0.2 by default.
    standardize : bool or 'auto'
        Scale features to mean 0 and variance 1, as part of the model; sparse features are scaled but not centered. ``auto``
        decides on held-out rows with ``lbfgs``, and is False with ``adam`` and ``sgd``.
    row_length : float, None or 'auto'
        Scale every row to this length, as part of the model, after ``standardize``; rows of zeros stay as they are. ``auto``
        chooses between 1 and None on held-out rows with ``lbfgs``, and is None with ``adam`` and ``sgd``. With ``sgd`` the
        step size is proportional to the row length, so choose it together with ``lr``.
    optimizer : {'auto', 'lbfgs', 'adam', 'adamw', 'sgd'}
        ``lbfgs`` minimizes over all rows at once; ``adam``, ``adamw`` (with decoupled weight decay) and ``sgd`` take steps over
        batches. ``auto`` is ``adamw`` with ``hidden``, else ``lbfgs`` for ``ce``, ``bce`` and ``square``, and ``adam`` for
        ``asl`` and losses with transport or if a parameter of its steps is given.
    momentum : float, optional
        Momentum of ``sgd``.
    lr : float, optional
        Learning rate; 0.001 with ``adam`` and ``adamw``, 0.1 with ``sgd``.
    schedule : {'constant', 'linear', 'cosine'}
        How the learning rate decays.
    batch : int, optional
        Rows per step; by default a tenth of the rows, but at least 16 and at most 150.
    epochs : int, optional
        Maximum number of passes over the data; by default 200 if rows are held out or there are fewer than 200 rows, and 30
        otherwise.
    weight_decay : float, optional
        λ in λ‖W‖², added once per batch, 0 by default; with ``adamw``, weights lose the part lr · λ per step, and the default
        with ``hidden`` is 0.01. Not with ``lbfgs``.
    bias : bool
        Whether to learn a bias for every label.
    validation : float, optional
        Fraction of the rows to hold out, 0 for none. With ``lbfgs`` they choose what is ``auto``, and the model learns from
        all rows in the end; by default every row is held out in turn if there are few, else 0.2. With ``adam`` and ``sgd``
        they choose the epoch; by default 0.1 if there are at least 200 rows.
    select : {'auto', 'auc', 'map', 'p@1', 'semantic', 'rank'}
        What the held-out rows choose by: ``rank`` is AUC + mAP + P@1, and ``semantic`` the cost of the top labels, which needs
        ``label_vectors``; ``auto`` is ``rank`` with ``lbfgs`` and ``auc`` with ``adam`` and ``sgd``.
    patience : int, optional
        Epochs without a better score of the held-out rows before training stops; 20 by default.
    device : {'auto', 'cpu', 'cuda', 'cuda:N'}
        Where :meth:`fit` trains. ``auto`` uses a GPU if one is available and the work is worth it; ``cuda`` uses a GPU or
        fails. :meth:`partial_fit` and predictions run on the CPU.
    precision : {'f32', 'tf32'}
        Precision of matrix products on a GPU; ``tf32`` is faster, rounds factors to 11 bits, and reports the effect.
    class_weight : mapping, 'balanced' or None
        Weights of the rows of each class, for rows with one class each; ``balanced`` is the number of rows over the number of
        classes and of rows of the class. They multiply ``sample_weight``.
    random_state : int, RandomState or None
        Seed of the order of rows, of the held-out rows and of random groups. The same seed gives the same model, bit for
        bit, for any number of threads.
    verbose : bool
        Whether to print one line per candidate, iteration or epoch.

    Attributes
    ----------
    tried_ : list of dict
        The candidates that were compared on held-out rows: ``loss``, ``columns``, ``row_length``, ``prior``, ``l2`` and their
        scores ``auc``, ``map`` and ``precision_at_1``; empty with ``adam`` and ``sgd``.
    classes_ : ndarray of shape (L,)
        The classes, or the columns of y if it is a 0/1 matrix.
    coef_ : ndarray of shape (L, d)
        Weights, for features after ``standardize`` and ``row_length``; with ``hidden``, of shape (L, hidden), for its units.
    intercept_ : ndarray of shape (L,)
        Biases.
    n_iter_ : int
        Number of epochs or iterations run.
    history_ : list of dict
        ``epoch``, ``loss``, ``seconds`` and ``validation_auc`` of every epoch.
    metric_ : ndarray of shape (r, r) or None
        The worst metric between predictions and truths, averaged over up to 50 training rows.
    threshold_ : float or None
        For multi-label rows: the fraction of a row's largest probability (with ``bce``, the probability) that a label needs
        for :meth:`predict` to include it, chosen by F1 on training rows.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Their names, if the rows of :meth:`fit` were a data frame; :meth:`save` keeps them. Columns of later data frames are
        matched by name: another order is matched with a warning, and names that differ are an error.

    Examples
    --------
    >>> import numpy as np
    >>> from robust_ot import RobustOTClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=300)
    >>> X = rng.normal(size=(300, 5)) + 2 * np.eye(3, 5)[y]
    >>> vectors = {"0": [1.0, 0.0], "1": [0.9, 0.4], "2": [-1.0, 0.0]}
    >>> model = RobustOTClassifier(label_vectors=vectors).fit(X, y)
    >>> bool(model.score(X, y) > 0.75)
    True
    """

    _continued: dict[str, Any]
    _learner: _core.Learner | None
    _learner_state: bytes | None

    def __init__(
        self,
        loss: str = "auto",
        *,
        label_vectors: ArrayLike | Mapping[str, ArrayLike] | str | os.PathLike[str] | None = None,
        missing: str = "error",
        mix_ce: float | None = None,
        mix_ot: float | None = None,
        mix_base: str = "ce",
        asl_positive: float | None = None,
        asl_negative: float | None = None,
        asl_margin: float | None = None,
        k: int = 1,
        rho: float = 2.0,
        lam: float = 1.0,
        prior: str | os.PathLike[str] | ArrayLike | None = None,
        groups: int | str = "auto",
        grouping: str | os.PathLike[str] | ArrayLike | None = None,
        entropy: float = 0.02,
        oracle_entropy: float | None = None,
        fw_iterations: int | None = None,
        sinkhorn_iterations: int | None = None,
        loss_tolerance: float | None = None,
        geometry: str = "names",
        target_transport: float = 0.0,
        target_temperature: float = 0.3,
        target_metric: str = "w2",
        target_geometry: str | None = None,
        label_smoothing: float = 0.0,
        label_prior: str = "auto",
        prior_temperature: float | None = None,
        prior_free: float | None = None,
        l2: float | str = "auto",
        hidden: int | None = None,
        dropout: float | None = None,
        input_dropout: float | None = None,
        standardize: bool | str = "auto",
        row_length: float | str | None = "auto",
        optimizer: str = "auto",
        momentum: float | None = None,
        lr: float | None = None,
        schedule: str = "constant",
        batch: int | None = None,
        epochs: int | None = None,
        weight_decay: float | None = None,
        bias: bool = True,
        validation: float | None = None,
        select: str = "auto",
        patience: int | None = None,
        device: str = "auto",
        precision: str = "f32",
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.label_vectors = label_vectors
        self.missing = missing
        self.mix_ce = mix_ce
        self.mix_ot = mix_ot
        self.mix_base = mix_base
        self.asl_positive = asl_positive
        self.asl_negative = asl_negative
        self.asl_margin = asl_margin
        self.k = k
        self.rho = rho
        self.lam = lam
        self.prior = prior
        self.groups = groups
        self.grouping = grouping
        self.entropy = entropy
        self.oracle_entropy = oracle_entropy
        self.fw_iterations = fw_iterations
        self.sinkhorn_iterations = sinkhorn_iterations
        self.loss_tolerance = loss_tolerance
        self.geometry = geometry
        self.target_transport = target_transport
        self.target_temperature = target_temperature
        self.target_metric = target_metric
        self.target_geometry = target_geometry
        self.label_smoothing = label_smoothing
        self.label_prior = label_prior
        self.prior_temperature = prior_temperature
        self.prior_free = prior_free
        self.l2 = l2
        self.hidden = hidden
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.standardize = standardize
        self.row_length = row_length
        self.optimizer = optimizer
        self.momentum = momentum
        self.lr = lr
        self.schedule = schedule
        self.batch = batch
        self.epochs = epochs
        self.weight_decay = weight_decay
        self.bias = bias
        self.validation = validation
        self.select = select
        self.patience = patience
        self.device = device
        self.precision = precision
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> RobustOTClassifier:
        """Train on rows X with labels y.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d), or ray.data.Dataset
            Features. A Ray dataset is trained on by :func:`robust_ot.distributed.fit`.
        y : array-like of shape (n,), or 0/1 matrix of shape (n, L)
            One class per row, or every label of each row. With a Ray dataset, the name of the label column, or the names of
            the columns of a 0/1 matrix.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows' losses: a weight of 2 counts a row twice, and one of 0 leaves it out of the losses. Scores of
            held-out rows and the scaling of features do not use weights. Not with Ray datasets or on GPUs.

        Returns
        -------
        RobustOTClassifier
            This estimator.
        """
        if type(X).__module__.startswith("ray.data"):
            from robust_ot import distributed

            if sample_weight is not None:
                raise ValueError("sample_weight must be None with a Ray dataset, but is given")
            self._refuse_class_weight("with a Ray dataset")
            return distributed.fit(self, X, y, progress=self.verbose)
        rows = self._read(X, y, sample_weight)
        model, history, notes = _core.fit(
            rows.X,
            rows.targets,
            rows.labels.names,
            rows.vectors,
            self._keywords(),
            self._on_epoch(),
            self._on_candidate(),
            rows.labels.kind,
            rows.weights,
        )
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        self._adopt(rows, model, history)
        return self

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> RobustOTClassifier:
        """Make one pass over some rows, continuing from earlier passes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.
        y : array-like of shape (n,), or 0/1 matrix of shape (n, L)
            One class per row, or every label of each row.
        classes : array-like of shape (L,), optional
            All classes; required in the first call unless y is a matrix.

        Returns
        -------
        RobustOTClassifier
            This estimator.
        """
        first = not hasattr(self, "_model")
        X = X if first else self._ordered(X)
        self._refuse_class_weight("where rows arrive in parts")
        names = getattr(y, "columns", None)
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=True, dtype=(np.float64, np.float32), reset=first)
        if first and classes is None and getattr(y, "ndim", 1) == 1:
            raise ValueError("classes must be given in the first call of partial_fit, but is None")
        if first:
            vectors, labels = complete(self.label_vectors, Labels.learn(y, names, classes), self.missing)
        else:
            labels = self._labels
            labels.check(classes)
            # Labels without a vector have been dealt with.
            vectors = self._model.label_vectors if self.missing != "error" else unit_vectors(self.label_vectors, labels.names)
        X, targets = with_labels(X, labels.targets(y))
        rows, keywords = _rows(X), self._keywords()
        if not first:
            # Steps continue with the loss and the row length that a fit over all rows has chosen.
            about = self._model.about
            if about.get("l2") is not None:
                row_length = "none" if self._model.row_length is None else self._model.row_length
                loss = "bce" if about["loss"] == "square" or about.get("blend") else about["loss"]
                self._continued = {"loss": loss, "row_length": row_length}
            for name, value in getattr(self, "_continued", {}).items():
                keywords[name] = value if keywords[name] == "auto" else keywords[name]
        # Other parameters than before, a model of fit or load, or a pickle: another learner goes on from there.
        learner: _core.Learner | None = getattr(self, "_learner", None)
        if learner is None or keywords != getattr(self, "_learner_keywords", None):
            state = getattr(self, "_learner_state", None) if learner is None else learner.state()
            model = None if first else self._model
            learner = _core.Learner(
                rows,
                targets,
                labels.names,
                vectors,
                keywords,
                labels.kind,
                state,
                model,
            )
        learner.learn(rows, targets)
        self._take(labels, learner.model(), learner.history(), None)
        self._learner, self._learner_keywords = learner, keywords
        self._learner_state = None
        return self

    def extend(
        self,
        classes: ArrayLike,
        label_vectors: ArrayLike | Mapping[str, ArrayLike] | str | os.PathLike[str],
    ) -> RobustOTClassifier:
        """Add classes that no training row had, as ``rot extend`` does.

        Their weights are the mean of the prior given the weights of the other classes: as if they had been known, without
        rows, in :meth:`fit`.

        Parameters
        ----------
        classes : array-like of shape (n,)
            The new classes.
        label_vectors : array-like of shape (n, d), mapping or path
            Their vectors, of the kind that the classifier was fitted with.

        Returns
        -------
        RobustOTClassifier
            This estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from robust_ot import RobustOTClassifier
        >>> y = np.repeat(["cat", "dog", "car"], 30)
        >>> X = np.random.default_rng(0).normal(size=(90, 4)) + 3 * np.eye(3, 4)[np.repeat([0, 1, 2], 30)]
        >>> vectors = {"cat": [1.0, 0.1], "dog": [0.8, 0.6], "car": [-1.0, 0.0]}
        >>> model = RobustOTClassifier(label_vectors=vectors).fit(X, y)
        >>> model.extend(["kitten"], {"kitten": [1.0, 0.2]}).classes_.tolist()
        ['car', 'cat', 'dog', 'kitten']
        """
        check_is_fitted(self)
        labels = self._labels.extended(np.asarray(classes))
        names = labels.names[len(self._labels.names) :]
        model = self._model.extended(names, unit_vectors(label_vectors, names))
        self._take(labels, model, self.history_, self.metric_)
        self._learner, self._learner_state = None, None
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Compute the logits of every label.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, L), or (n,) for two classes
            For two classes, the logit of the second minus that of the first.
        """
        check_is_fitted(self)
        logits = self._model.logits(self._checked(X)).astype(np.float64)
        if not self._labels.several and len(self.classes_) == 2:
            return np.asarray(logits[:, 1] - logits[:, 0])
        return logits

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Compute the probability of every label; rows sum to one, except for multi-label ``bce``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, L)
            Probabilities.
        """
        check_is_fitted(self)
        if self._model.softmax or self._labels.several:
            return self._model.probabilities(self._checked(X))
        # Exactly one class is true, so sigmoids are scaled to sum to one; logarithms avoid underflow.
        logs = -np.logaddexp(0, -self._model.logits(self._checked(X)).astype(np.float64))
        probabilities = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of every row, or its labels as a 0/1 matrix.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n,) or (n, L)
            The most probable class; for multi-label rows, the labels with at least ``threshold_`` times the row's largest
            probability or, with ``bce``, with at least the probability ``threshold_``.
        """
        check_is_fitted(self)
        if not self._labels.several:
            decision = self.decision_function(X)
            best = (decision > 0).astype(np.intp) if decision.ndim == 1 else decision.argmax(axis=1)
            return np.asarray(self.classes_[best])
        probabilities = self.predict_proba(X)
        largest = probabilities.max(axis=1, keepdims=True) if self._model.softmax else 1.0
        assert self.threshold_ is not None, "a model for several labels has a threshold"
        least = self.threshold_ * largest
        return np.asarray(probabilities >= least).astype(np.int64)

    def predict_least_cost(self, X: Any, k: int = 1) -> NDArray[Any]:
        """Predict the k classes of least expected cost, where a mistake costs 1 − the cosine between label vectors.

        With one class per row, the cost is that to the class drawn from :meth:`predict_proba`; for multi-label ``bce``, it is
        that to the nearest true label, with labels that are true independently of each other.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Features.
        k : int
            Number of classes per row.

        Returns
        -------
        ndarray of shape (n, k)
            Classes, the least expected cost first.
        """
        check_is_fitted(self)
        return np.asarray(self.classes_[np.array(self._model.least_cost(self._checked(X), k), dtype=np.intp)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that ``rot predict``, ``rot evaluate`` and :meth:`load` read.

        Parameters
        ----------
        path : path
            The file, ``.safetensors`` by convention.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        self._model.with_feature_names(None if names is None else list(names)).save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RobustOTClassifier:
        """Read a model that :meth:`save` or ``rot train`` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        RobustOTClassifier
            A fitted estimator, with the parameters it was trained with as far as they are keywords.
        """
        model = _core.Model.load(os.fspath(path))
        about = model.about
        estimator = cls(label_vectors=model.label_vectors, **model.keywords())
        labels = Labels.named(model.label_names, about["label_kind"], about["threshold"] is not None)
        estimator._take(labels, model, [], None)
        estimator.n_features_in_ = model.features
        if model.feature_names is not None:
            estimator.feature_names_in_ = np.array(model.feature_names, dtype=object)
        estimator.n_iter_ = about["epochs"]
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        learner = state.pop("_learner", None)
        if learner is not None:
            state["_learner_state"] = learner.state()
        return state

    def _weights(self, sample_weight: ArrayLike | None, y: NDArray[Any], several: bool) -> NDArray[np.float32] | None:
        """Combine the weights of rows and of classes; None if all rows count alike."""
        given = self.class_weight
        if not (given is None or given == "balanced" or isinstance(given, Mapping)):
            raise ValueError(f"class_weight must be None, 'balanced' or weights by class, but is {given!r}")
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weights is not None and weights.shape != (len(y),):
            raise ValueError(f"sample_weight must have one number per row, {len(y)}, but has shape {weights.shape}")
        if given is not None:
            if several:
                raise ValueError(f"class_weight must be None for rows with several labels, but is {given!r}")
            of_class = compute_sample_weight(given, y)
            weights = of_class if weights is None else weights * of_class
        return None if weights is None else weights.astype(np.float32)

    def _refuse_class_weight(self, where: str) -> None:
        if self.class_weight is not None:
            raise ValueError(f"class_weight must be None {where}, but is {self.class_weight!r}")

    def _read(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> TrainingRows:
        """Check rows and labels, and bring them into the form of the core."""
        names = getattr(y, "columns", None)
        X, y = validate_data(self, X, y, accept_sparse="csr", multi_output=True, dtype=(np.float64, np.float32))
        vectors, labels = complete(self.label_vectors, Labels.learn(y, names), self.missing)
        targets = labels.targets(y)
        weights = self._weights(sample_weight, y, labels.several)
        if weights is not None:
            weights = weights[np.diff(targets[0]) > 0]
        X, targets = with_labels(X, targets)
        return TrainingRows(_rows(X), _rows(X[:METRIC_ROWS]), targets, labels, vectors, weights)

    def _adopt(self, rows: TrainingRows, model: _core.Model, history: list[dict[str, float]]) -> None:
        """Become the classifier with the model of these rows."""
        few = min(len(rows.targets[0]) - 1, METRIC_ROWS)
        first = (rows.targets[0][: few + 1], rows.targets[1][: rows.targets[0][few]])
        self._take(rows.labels, model, history, model.mean_metric(rows.first, first))
        self._continued = {}
        self._learner = None
        self._learner_state = None

    # Interface to the core.

    def _keywords(self) -> dict[str, Any]:
        keywords = {name: getattr(self, name) for name in _KEYWORDS}
        keywords["row_length"] = "none" if self.row_length is None else self.row_length
        keywords["groups"] = None if isinstance(self.groups, str) and self.groups == "auto" else self.groups
        used = {self.loss} | ({self.target_metric} if self.target_transport else set())
        if self.prior is not None and not used & {"kl", "ds"}:
            warnings.warn(f"prior has no effect with {self.loss}; it belongs to kl and ds", UserWarning, stacklevel=3)
            keywords["prior"] = None
        for name in ("prior", "grouping"):
            value = keywords[name]
            if value is not None and not isinstance(value, (str, os.PathLike)):
                # Lists compare as a whole, which arrays do not.
                keywords[name] = np.asarray(value).tolist()
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return {**keywords, "random_state": int(seed)}

    def _on_epoch(self) -> Any:
        if not self.verbose:
            return None

        def tell(epoch: int, epochs: int | None, loss: float, auc: float | None) -> None:
            validation = "" if auc is None else f", validation AUC {auc:.4f}"
            what = f"iteration {epoch}" if epochs is None else f"epoch {epoch} of {epochs}"
            print(f"{what}: loss {loss:.6f}{validation}")

        return tell

    def _on_candidate(self) -> Any:
        if not self.verbose:
            return None

        def tell(loss: str, prior: str, l2: float, scores: tuple[float, float, float]) -> None:
            auc, precision, top = scores
            print(f"{loss}, prior {prior}, L2 {l2:.3e}: AUC {auc:.4f}, mAP {precision:.4f}, P@1 {top:.4f}")

        return tell

    def _take(self, labels: Labels, model: _core.Model, history: list[dict[str, float]], metric: Any) -> None:
        """Adopt the learned model; nothing before this changes a fitted estimator."""
        self._labels, self._model = labels, model
        self.classes_ = labels.classes
        self.coef_ = np.ascontiguousarray(model.weights.T)
        bias = model.bias
        self.intercept_ = np.zeros(len(labels.names), dtype=np.float32) if bias is None else bias
        self.history_ = history
        self.n_iter_ = len(history)
        self.metric_ = metric
        self.threshold_ = model.threshold
        self.tried_ = model.about.get("tried", [])

    def _ordered(self, X: Any) -> Any:
        return in_order(X, getattr(self, "feature_names_in_", None))

    def _checked(self, X: Any) -> Any:
        return _rows(validate_data(self, self._ordered(X), accept_sparse="csr", dtype=(np.float64, np.float32), reset=False))


def _rows(X: Any) -> Any:
    """Return what the core takes: an array, or the parts of a sparse matrix with sorted columns."""
    if not hasattr(X, "tocsr"):
        return X
    X = X.tocsr(copy=True)
    X.sum_duplicates()
    return (X.indptr, X.indices, X.data, X.shape[1])
