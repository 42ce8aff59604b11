"""Local models with discovered features of future bags, and the features as a transformer."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from treecrf.encoding.encoder import Encoder
from treecrf.inputs.added_columns import with_columns, with_dicts
from treecrf.inputs.offsets import split_sequences
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.base.history import History
from treecrf.learners.base.opening import FitArguments
from treecrf.learners.base.predictor import results_per_sequence
from treecrf.learners.boosted.spec import Trained
from treecrf.learners.future.discovery import MAX_EFFECT, SearchSettings
from treecrf.learners.future.features import (
    DIRECTIONS,
    FutureEncoder,
    FutureFeature,
    bag_probabilities,
    future_features,
)
from treecrf.learners.future.training import AlternatingTraining
from treecrf.learners.local.memm import LocalClassifier, TreeMEMM
from treecrf.utils.messages import Progress
from treecrf.utils.threads import Threads
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    GroupsLike,
    LabelsLike,
    LengthsLike,
    LocalDecoding,
    Missing,
    RandomState,
    SequencesLike,
    Transitions,
    Window,
)
from treecrf.utils.validation import DocumentationLink, Interval, StrOptions, documented_as

# Candidates of ``bag_size="auto"``; None reaches to the end of the sequence.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, None)


@documented_as(TreeMEMM, without=["evals_result_"])
@dataclass(kw_only=True, eq=False, repr=False)
class FutureFeatureMEMM(LocalClassifier):
    """Maximum-entropy Markov model that discovers features of the positions ahead.

    A label may depend on something ahead, at no fixed offset: for example, on whether one of the
    next words is a verb. The positions that follow a position are its bag, and each of them is an
    instance. An instance is positive if it shows a pattern, which training discovers:

    1. Trees are boosted as in `TreeMEMM` until they no longer help.
    2. Trees of another kind learn the probability that an instance is positive, from its
       ``window``. The new feature of a position is the probability that its bag contains a positive
       instance.
    3. Further trees use the new feature like any other. The effects that they learn show the
       pattern more clearly, so the feature is discovered once more, given these effects. The second
       version is kept if it is not worse.

    Parameters
    ----------
    window : int or (int, int), default=0
        Number of positions to the left and to the right whose features the trees can test.
        Offsets outside of all training sequences are left out.
    max_iter : int, default=500
        Maximum number of boosting iterations between two discoveries.
    max_leaf_nodes : int, default=20
        Maximum number of leaves per tree. Trees grow best-first.
    max_depth : int or None, default=None
        Maximum number of tests from the root of a tree to a leaf, including tests of previous
        labels. None is no limit. The trees that add a discovered feature are not limited.

    Future features

    bag_size : int, "to_end" or "auto", default="auto"
        Maximum number of positions in a bag. This is the most important parameter. ``"to_end"`` is
        the whole rest of the sequence. ``"auto"`` tries this and eleven sizes from 1 to 16 for the
        first feature, and keeps the size with the best validation likelihood.
    bag_direction : {"future", "past", "both"}, default="future"
        Which neighbors of a position form its bag: those ahead, those behind, or both.
    max_future_features : int, default=10
        Maximum number of rounds of discovery. Discovery ends early when the features of a round,
        with all trees that follow them, do not raise the mean validation log-likelihood per
        position by 0.001.
    initial_score : float, default=-5.0
        Initial log-odds that an instance is positive, from -30 to 30.
    initial_effect : float, default=0.2
        Initial effect of a feature on the score of a label, at most 40. Large values split one
        pattern into several features.
    n_bins : int, default=20
        Number of equal-width bins between 0 and 1 into which trees divide a discovered feature,
        from 2 to 254.
    multiclass : {"all", "best", "shared"}, default="all"
        Features to discover per round when there are more than two labels:

        - ``"all"``: a feature for each label.
        - ``"best"``: the best one of these.
        - ``"shared"``: one feature with an effect on all labels.
    instance_max_iter : int, default=20
        Maximum number of trees per discovered feature.
    instance_max_leaf_nodes : int, default=20
        Maximum number of leaves of these trees.
    instance_l2_regularization : float, default=100.0
        Shrinkage of the leaf values of these trees: each leaf counts this number of additional bags
        on which an instance has no effect.

    Stopping

    early_stopping : bool, default=True
        Whether to hold out validation sequences. They decide when to search for another feature,
        and whether to keep it: trees are added until the validation likelihood has not improved by
        ``tol`` for ``n_iter_no_change`` iterations. If False, every phase takes ``max_iter``
        iterations, and features are judged on the training data.
    validation_fraction
    n_iter_no_change : int, default=5
        Number of iterations without improvement before training stops.
    tol : float, default=1e-4
        Minimum increase of the mean log-likelihood per position that counts as an improvement.
    refit : bool, default=False
        Whether to train the final model again on all sequences, including those held out. The
        numbers of iterations and rounds and the bag size stay the same. ``validation_score_`` is
        then empty.

    Attributes
    ----------
    future_features_ : list of FutureFeature
        The discovered features, in the order of their discovery.
    validation_score_ : float array
        The same for the validation sequences. Empty without them.
    feature_importances_ : float array of shape ``(n_features_in_,)``
        Fraction of the total gain of all splits that is due to each feature, over all offsets. The
        gain of a discovered feature is credited to the features that recognize its instances.

    See Also
    --------
    TreeMEMM : The same model without discovered features.
    FutureFeatures : Transformer that computes the features for any other model.

    Notes
    -----
    The second discovery is not in [1]_. It sharpens features whose values the first discovery
    spreads over all bins.

    A window that reaches as far to the right as the bag covers the same positions. On the stresses
    of NETtalk, `TreeMEMM` with such a window is more accurate, so compare with it.

    References
    ----------
    .. [1] G. Hao, "Efficient Training and Feature Induction in Sequential Supervised Learning",
       PhD dissertation, Oregon State University, 2009, chapter 5.

    Examples
    --------
    >>> from treecrf import FutureFeatureMEMM
    >>> from treecrf.datasets import make_future_bags
    >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
    >>> memm = FutureFeatureMEMM(
    ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
    ... )
    >>> memm = memm.fit(X[:50], y[:50])
    >>> memm.score(X[50:], y[50:]) > 0.95
    True
    >>> len(memm.future_features_)
    1
    """

    _parameter_constraints: ClassVar[dict] = {
        **LocalClassifier._parameter_constraints,
        "window": [numbers.Integral, tuple, list],
        "early_stopping": ["boolean"],
        "bag_size": [
            Interval(numbers.Integral, 1, 2**31 - 1, closed="both"), StrOptions({"auto", "to_end"})
        ],
        "bag_direction": [StrOptions(set(DIRECTIONS))],
        "max_future_features": [Interval(numbers.Integral, 0, None, closed="left")],
        "initial_score": [Interval(numbers.Real, -30, 30, closed="both")],
        "initial_effect": [Interval(numbers.Real, 0, MAX_EFFECT, closed="right")],
        "n_bins": [Interval(numbers.Integral, 2, 254, closed="both")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left")],
        "instance_max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "instance_max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left")],
        "instance_l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "refit": ["boolean"],
        "multiclass": [StrOptions({"all", "best", "shared"})],
    }  # fmt: skip

    # Every tree may test all features.
    max_features_per_tree = 1.0
    # Features are searched for among all examples.
    sampling = None
    max_examples = None

    _takes_parts = False
    _encoder_class: ClassVar[type[Encoder]] = FutureEncoder

    order: int = 1
    window: Window = 0
    bag_size: Literal["auto", "to_end"] | int = "auto"
    bag_direction: Literal["future", "past", "both"] = "future"
    max_future_features: int = 10
    initial_score: float = -5.0
    initial_effect: float = 0.2
    n_bins: int = 20
    multiclass: Literal["all", "best", "shared"] = "all"
    max_iter: int = 500
    max_leaf_nodes: int = 20
    max_depth: int | None = None
    l2_regularization: float = 40.0
    learning_rate: float = 1.0
    second_order: bool = False
    instance_max_iter: int = 20
    instance_max_leaf_nodes: int = 20
    instance_l2_regularization: float = 100.0
    min_gain: float = 0.0
    min_samples_leaf: int = 1
    max_features: float = 1.0
    subsample: float = 1.0
    max_bins: Literal["auto"] | int = "auto"
    missing: Missing = "weighting"
    categorical_features: CategoricalFeatures = "from_dtype"
    decoding: LocalDecoding = "marginal"
    beam_width: int = 10
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    early_stopping: bool = True
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    tol: float = 1e-4
    refit: bool = False
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    random_state: RandomState = None
    verbose: int = 0

    def _train(self, arguments: FitArguments) -> dict:
        if arguments.eval_sets:
            raise ValueError(
                "eval_set: FutureFeatureMEMM scores one set of validation sequences; pass it as "
                "X_val and y_val"
            )
        if arguments.callbacks:
            raise ValueError(
                "callbacks: FutureFeatureMEMM calls none, because it may drop the iterations of a "
                "round again; TreeMEMM does"
            )
        data = self._prepare(arguments)
        spec = self._spec()
        spec.kind.check_size(len(data.classes), len(data.training.codes))
        max_iter = (self.max_future_features + 1) * (self.max_iter + 1)
        with (
            Threads(self.n_jobs) as threads,
            Progress(self.verbose, 0, max_iter, spec.name) as progress,
        ):

            def report(n_iter: int, history: History) -> None:
                progress.update(n_iter, history.latest("log-likelihood"))

            training = AlternatingTraining(spec, data, threads, report, self._search_settings())
            state = training.run()
            if self.refit and data.held_out is not None:
                state = training.repeated_on_all(state)
        trained = Trained(
            data.classes,
            data.seed,
            state.encoder,
            state.forest,
            None,
            state.history,
            self.max_leaf_nodes,
        )
        fitted = self._attributes_of(trained.until(state.history.index_to_keep(spec.stopping)))
        return fitted | {"_n_unlabeled": data.n_unlabeled}

    @property
    def future_features_(self) -> list[FutureFeature]:
        """The discovered features, in the order of their discovery."""
        return future_features(self._encoder, self._forest, self.classes_)

    def future_values(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> Any:
        """Compute the values of the discovered features at each position.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences of the same form and with the same features as the training data.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        list of float arrays of shape (n_positions, n_future_features, 2)
            Two probabilities for each feature: that the position is a positive instance (index 0 of
            the last axis), and that its bag contains one (index 1). For a long table, one array of
            all positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            As in `predict`.

        See Also
        --------
        FutureFeatures : Transformer that adds these features to sequences.
        FutureFeature.describe : Describe a feature in words.

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM
        >>> from treecrf.datasets import make_future_bags
        >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
        >>> memm = FutureFeatureMEMM(
        ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
        ... )
        >>> values = memm.fit(X, y).future_values(X)[3]
        >>> values.shape
        (30, 1, 2)

        The third of these positions is a positive instance (left column), and is in the bags of the
        positions before it (right column):

        >>> values[22:26, 0].round(2)
        array([[0.01, 1.  ],
               [0.  , 1.  ],
               [1.  , 0.01],
               [0.  , 0.  ]])
        """
        predictor = self._predictor()
        segmentation = predictor.segmentation(X, lengths, groups)
        sequences, _ = predictor.read(X, segmentation)
        empty = np.zeros((0, len(self._encoder.features), 2))
        return segmentation.join(results_per_sequence(sequences, self._future_values, empty), empty)

    def _future_values(self, sequences: Sequences) -> list[np.ndarray]:
        encoder = self._encoder
        encoded = encoder.base.encode(sequences)
        values = np.empty((encoded.n_positions, len(encoder.features), 2))
        for k, feature in enumerate(encoder.features):
            score = feature.scores(encoder.base, encoded)
            values[:, k, 0] = expit(score)
            values[:, k, 1] = bag_probabilities(feature.bags(encoded), score)
        return split_sequences(values, encoded.offsets)

    def _search_settings(self) -> SearchSettings:
        sizes = {"auto": SIZES, "to_end": (None,)}.get(self.bag_size, (self.bag_size,))
        names = {field.name for field in fields(SearchSettings)} - {"sizes"}
        return SearchSettings(sizes, **{name: getattr(self, name) for name in names})


class FutureFeatures(
    DocumentationLink, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """Transformer that adds the features that a `FutureFeatureMEMM` discovers.

    The features of a sequence depend on its input only. They give models of any kind, and decoders
    that proceed from left to right, information from the positions ahead.

    Parameters
    ----------
    estimator : FutureFeatureMEMM or None, default=None
        Estimator that discovers the features. `fit` trains a copy of it. None stands for
        ``FutureFeatureMEMM(order=0)``.
    append : bool, default=False
        Whether to append the discovered features to the columns of the input, instead of returning
        them alone. Symbols become a table with a column of symbols.

    Attributes
    ----------
    estimator_ : FutureFeatureMEMM
        The fitted copy of ``estimator``.
    future_features_ : list of FutureFeature
        The discovered features, in the order of their discovery.
    n_features_in_ : int
        Number of features; 1 for symbols.

    See Also
    --------
    FutureFeatureMEMM : Discovers the features.
    FutureFeature : Description of a feature.

    References
    ----------
    .. [1] G. Hao, "Efficient Training and Feature Induction in Sequential Supervised Learning",
       PhD dissertation, Oregon State University, 2009, chapter 5.

    Examples
    --------
    >>> from treecrf import FutureFeatureMEMM, FutureFeatures, TreeCRF
    >>> from treecrf.datasets import make_future_bags
    >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
    >>> model = FutureFeatureMEMM(
    ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
    ... )
    >>> discovery = FutureFeatures(model, append=True)
    >>> ahead = discovery.fit_transform(X, y)
    >>> X[0].shape, ahead[0].shape
    ((30, 8), (30, 9))
    >>> TreeCRF(max_iter=20).fit(ahead, y).score(ahead, y) > 0.95
    True
    """

    # Parameters of `fit` that are otherwise not in its signature.
    __metadata_request__fit: ClassVar[dict] = {"lengths": None, "groups": None}

    def __init__(self, estimator: FutureFeatureMEMM | None = None, *, append: bool = False):
        self.estimator = estimator
        self.append = append

    def fit(self, X: SequencesLike, y: LabelsLike, **parameters: Any) -> Self:
        """Discover features in labeled sequences.

        Parameters
        ----------
        X : list of sequences, or one long table
            The sequences, as in `FutureFeatureMEMM.fit`.
        y : list of array-likes of shape (n_positions,), one array-like or str
            Their labels, as in `FutureFeatureMEMM.fit`.
        **parameters
            Other parameters of `FutureFeatureMEMM.fit`, such as ``X_val`` and ``y_val``, or
            ``lengths``.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError, TypeError
            As in `FutureFeatureMEMM.fit`.

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM, FutureFeatures
        >>> model = FutureFeatureMEMM(order=0, bag_size=2, max_iter=5, max_future_features=1)
        >>> discovery = FutureFeatures(model).fit(["abab", "ba"] * 5, ["xyxy", "yx"] * 5)
        >>> discovery.n_features_in_
        1
        """
        model = FutureFeatureMEMM(order=0) if self.estimator is None else clone(self.estimator)
        if not isinstance(model, FutureFeatureMEMM):
            raise TypeError(
                f"estimator is a {type(model).__name__}; expected a FutureFeatureMEMM or None"
            )
        self.estimator_ = model.fit(X, y, **parameters)
        self.n_features_in_ = model.n_features_in_
        return self

    def fit_transform(self, X: SequencesLike, y: LabelsLike, **parameters: Any) -> Any:
        """Discover features, and compute those of the same sequences.

        Parameters
        ----------
        X : list of sequences, or one long table
            The sequences, as in `fit`.
        y : list of array-likes of shape (n_positions,), one array-like or str
            Their labels, as in `fit`.
        **parameters
            Other parameters of `fit`.

        Returns
        -------
        list of arrays, or one array for a long table
            The features, as from `transform`.

        Raises
        ------
        ValueError, TypeError
            As in `fit`.
        """
        cuts = {name: parameters.get(name) for name in ("lengths", "groups")}
        return self.fit(X, y, **parameters).transform(X, **cuts)

    @property
    def future_features_(self) -> list:
        """The discovered features, in the order of their discovery."""
        return self.estimator_.future_features_

    def transform(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> Any:
        """Compute the discovered features of sequences.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences of the same form and with the same features as the training data.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in
            `FutureFeatureMEMM.predict`.

        Returns
        -------
        list of float arrays of shape (n_positions, n_future_features)
            For each feature, the probability that the bag of a position contains a positive
            instance. With ``append``, the sequences with these columns, in their own form: arrays,
            matrices, data frames or dicts. For a long table, one table of all positions.

        Raises
        ------
        NotFittedError
            If the transformer has not been fitted.
        ValueError, TypeError
            If X does not match the training data. The message names the sequence and the reason.

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM, FutureFeatures
        >>> from treecrf.datasets import make_future_bags
        >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
        >>> model = FutureFeatureMEMM(
        ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
        ... )
        >>> discovery = FutureFeatures(model).fit(X, y)
        >>> discovery.transform(X)[3][22:26].round(2)
        array([[1.  ],
               [1.  ],
               [0.01],
               [0.  ]])
        """
        check_is_fitted(self)
        fitted = fitted_model(self.estimator_)
        segmentation = fitted.predictor.segmentation(X, lengths, groups, False)
        X = X if segmentation.is_long else list(X)
        values = self.estimator_.future_values(X, lengths=lengths, groups=groups)
        names = self._names()
        if segmentation.is_long:
            bags = values[..., 1]
            X = with_dicts(X, fitted.chain.schema)
            return with_columns(X, bags, names) if self.append else bags
        bags = [sequence_values[..., 1] for sequence_values in values]
        if not self.append:
            return bags
        return [
            with_columns(with_dicts(x, fitted.chain.schema), table, names)
            if len(table)
            else x  # an empty sequence has any form
            for x, table in zip(X, bags, strict=True)
        ]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns, with ``append``. The default is their names in the training
            data; without names, ``"x0"``, ``"x1"``, and so on.

        Returns
        -------
        array of str
            ``"future0"``, ``"future1"``, and so on. With ``append``, the names of the input columns
            come first.

        Raises
        ------
        NotFittedError
            If the transformer has not been fitted.

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM, FutureFeatures
        >>> from treecrf.datasets import make_future_bags
        >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
        >>> model = FutureFeatureMEMM(
        ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
        ... )
        >>> discovery = FutureFeatures(model).fit(X, y)
        >>> discovery.get_feature_names_out().tolist()
        ['future0']
        """
        check_is_fitted(self)
        if not self.append:
            return np.array(self._names(), dtype=object)
        if input_features is None:
            default = [f"x{j}" for j in range(self.n_features_in_)]
            input_features = getattr(self.estimator_, "feature_names_in_", default)
        return np.array([*input_features, *self._names()], dtype=object)

    def _names(self) -> list[str]:
        n_features = len(fitted_model(self.estimator_).chain.encoder.features)
        return [f"future{k}" for k in range(n_features)]
