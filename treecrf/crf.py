"""The conditional random field whose potentials are boosted regression trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from treecrf import _inference
from treecrf.base import BoostedSequenceClassifier, split, staged_scores
from treecrf.threads import Threads

# Iterations that start from the pseudo-likelihood, as in the 2004 paper.
N_PSEUDO_ITERATIONS = 3


def chains_of(offsets: np.ndarray, order: int) -> np.ndarray:
    """Sequences as inference sees them: without label contexts every position stands alone."""
    return offsets if order else np.arange(offsets[-1] + 1)


class ChainObjective:
    """Log-likelihood of label sequences, and its functional gradient.

    Parameters
    ----------
    offsets, codes : int arrays
        Starts of the sequences and codes of their labels.
    n_labels, order : int
    second_order : bool
        Whether curvature is wanted beside the gradient.
    n_pseudo : int
        Number of iterations that follow the pseudo-likelihood.
    threads : Threads
    """

    def __init__(
        self,
        offsets: np.ndarray,
        codes: np.ndarray,
        n_labels: int,
        order: int,
        second_order: bool,
        n_pseudo: int,
        threads: Threads,
    ):
        self.chains = chains_of(offsets, order)
        self.codes = codes
        self.order = order
        self.n_pseudo = n_pseudo
        self.threads = threads
        self.parts = threads.parts(self.chains)
        self.likelihoods = np.zeros(len(self.chains) - 1)
        self.second_order = second_order
        self._shape = (n_labels, len(codes), n_labels**order)
        self._residuals: np.ndarray | None = None
        self._curvature: np.ndarray | None = None

    def examples(
        self, scores: np.ndarray, iteration: int
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Residuals, curvature and mean log-likelihood at the scores."""
        if self._residuals is None:
            self._residuals = np.empty(self._shape)
            self._curvature = np.empty(self._shape) if self.second_order else None
        if iteration < self.n_pseudo:
            self.threads.map(lambda part: self._follow_pseudo_likelihood(scores, *part), self.parts)
            return self._residuals, self._curvature, self.value(scores)
        self.threads.map(lambda part: self._follow_likelihood(scores, *part), self.parts)
        return self._residuals, self._curvature, self._mean()

    def value(self, scores: np.ndarray) -> float:
        """Mean log-likelihood of a position."""
        self.threads.map(
            lambda part: _inference.log_likelihood(
                scores, self.chains, self.codes, *part, self.likelihoods
            ),
            self.parts,
        )
        return self._mean()

    def _mean(self) -> float:
        return float(self.likelihoods.sum() / len(self.codes))

    def _follow_likelihood(self, scores: np.ndarray, first: int, last: int) -> None:
        _inference.residuals(
            scores,
            self.chains,
            self.codes,
            first,
            last,
            self._residuals,
            self._curvature,
            self.likelihoods,
        )

    def _follow_pseudo_likelihood(self, scores: np.ndarray, first: int, last: int) -> None:
        _inference.pseudo_residuals(
            scores,
            self.chains,
            self.codes,
            first,
            last,
            self._residuals,
            self._curvature,
        )


class TreeCRF(BoostedSequenceClassifier):
    """Conditional random field trained by gradient tree boosting.

    The score of label ``v`` at a position, after the previous labels ``u``, is a sum of regression
    trees over a window of the input and ``u``. Each iteration computes by forward-backward how far
    the probabilities are off, and adds one tree per label fitted to these differences.

    Parameters
    ----------
    order : int, default=1
        Number of previous labels that a label depends on. 0 labels each position by itself.
    window : int or (int, int), default=0
        Number of positions to the left and to the right that the trees may look at.
    max_iter : int, default=100
        Number of boosting iterations, each with one tree per label.
    max_leaf_nodes : int, default=100
        Most leaves of a tree; the best leaf is split first.
    l2_regularization : float, default=40.0
        Shrinkage of the leaves: a number of imagined examples of target 0 in each leaf. With
        ``second_order`` it adds to the curvature, and 3 to 10 is a good range.
    learning_rate : float, default=1.0
        Factor on the trees.
    second_order : bool, default=False
        Newton boosting: leaves are divided by the curvature of the likelihood instead of the
        number of examples. The curvature is a bound for which steps of length 1 are safe.
    min_gain : float, default=0.0
        A split must reduce the squared error by more than this.
    min_samples_leaf : int, default=1
        Fewest examples, pairs of position and previous labels, on a side of a split.
    max_features : float, default=1.0
        Share of the windowed features that are considered at a node, chosen at random. Previous
        labels are always considered.
    subsample : float, default=1.0
        Share of the sequences that an iteration learns from, chosen at random.
    max_bins : int, default=255
        Most quantile bins of a numeric feature.
    init : {"zero", "pseudo_likelihood"}, default="zero"
        ``"pseudo_likelihood"`` follows the pseudo-likelihood in the first three iterations.
    decoding : {"marginal", "viterbi"}, default="marginal"
        Whether `predict` takes the most probable label of each position or the most probable
        label sequence.
    early_stopping : bool, default=False
        Whether to stop when the likelihood of held-out sequences has not risen by ``tol`` for
        ``n_iter_no_change`` iterations. The model keeps the iterations up to the best.
    validation_fraction : float, default=0.1
        Share of the sequences held out for early stopping.
    n_iter_no_change : int, default=10
        Patience of early stopping.
    tol : float, default=1e-4
        Least rise of the mean log-likelihood of a position that counts.
    warm_start : bool, default=False
        Whether `fit` adds iterations to the model of the last fit, up to ``max_iter`` in all.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. A position weighs in the trees as its true label does; likelihoods
        are reported without weights. Labels that a dict does not name weigh 1. Labels that do not
        occur may be named beside all that do.
    n_jobs : int, default=None
        Number of threads; -1 for all processors. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all random choices: held-out sequences, subsamples, features.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    n_iter_ : int
        Number of boosting iterations of the model.
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Mean log-likelihood of a training position before the first and after each iteration.
    validation_score_ : float array
        The same for held-out sequences; empty without them.
    feature_importances_ : float array of shape ``(n_features_in_,)``
        Share of the splits' total gain that each feature has, at all offsets together.
    n_features_in_ : int
        Number of features; 1 for symbols.
    feature_names_in_ : array of shape ``(n_features_in_,)``
        Names of the features, where all sequences are data frames with string columns.

    See Also
    --------
    treecrf.load : Read a saved model.

    References
    ----------
    .. [1] T. G. Dietterich, A. Ashenfelter, Y. Bulatov, "Training conditional random fields via
       gradient tree boosting", ICML 2004.
    .. [2] T. G. Dietterich, G. Hao, A. Ashenfelter, "Gradient tree boosting for training
       conditional random fields", JMLR 9, 2008.
    .. [3] T. Chen, S. Singh, B. Taskar, C. Guestrin, "Efficient second-order gradient boosting
       for conditional random fields", AISTATS 2015.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> crf = TreeCRF(window=1, max_iter=10, l2_regularization=1.0).fit(X, y)
    >>> "".join(crf.predict(["bacan"])[0])
    'cvcvc'
    """

    _parameter_constraints: ClassVar[dict] = {
        **BoostedSequenceClassifier._parameter_constraints,
        "init": [StrOptions({"zero", "pseudo_likelihood"})],
        "decoding": [StrOptions({"marginal", "viterbi"})],
    }

    def __init__(
        self,
        *,
        order=1,
        window=0,
        max_iter=100,
        max_leaf_nodes=100,
        l2_regularization=40.0,
        learning_rate=1.0,
        second_order=False,
        min_gain=0.0,
        min_samples_leaf=1,
        max_features=1.0,
        subsample=1.0,
        max_bins=255,
        init="zero",
        decoding="marginal",
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
        warm_start=False,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.order = order
        self.window = window
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.l2_regularization = l2_regularization
        self.learning_rate = learning_rate
        self.second_order = second_order
        self.min_gain = min_gain
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.subsample = subsample
        self.max_bins = max_bins
        self.init = init
        self.decoding = decoding
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _objective(
        self, offsets: np.ndarray, codes: np.ndarray, n_labels: int, threads: Threads
    ) -> ChainObjective:
        n_pseudo = N_PSEUDO_ITERATIONS if self.init == "pseudo_likelihood" else 0
        return ChainObjective(
            offsets, codes, n_labels, self.order, self.second_order, n_pseudo, threads
        )

    def predict(self, X: Any) -> list[np.ndarray]:
        """Label every position.

        Parameters
        ----------
        X : list of sequences

        Returns
        -------
        list of arrays (n_positions,)
            Labels, by ``decoding``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X is not like the training data; the message says which sequence and why.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.predict(["nab"])[0].tolist()
        ['c', 'v', 'c']
        """
        if self.decoding == "viterbi":
            return self.decode(X)[0]
        return [self.classes_[p.argmax(axis=1)] for p in self.predict_proba(X)]

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """Probability of every label at every position, given the whole sequence.

        Parameters
        ----------
        X : list of sequences

        Returns
        -------
        list of float arrays (n_positions, n_classes)
            Columns in the order of ``classes_``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X is not like the training data; the message says which sequence and why.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.predict_proba(["nab"])[0].shape
        (3, 2)
        """
        with Threads(self.n_jobs) as threads:
            scores, offsets = self._scores(X, threads)
            chains = chains_of(offsets, self._forest.order)
            return split(_marginals(scores, chains, threads), offsets)

    def staged_predict_proba(self, X: Any) -> Iterator[list[np.ndarray]]:
        """Probabilities after each boosting iteration.

        Parameters
        ----------
        X : list of sequences

        Yields
        ------
        list of float arrays (n_positions, n_classes)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X is not like the training data; the message says which sequence and why.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> len(list(crf.staged_predict_proba(["nab"])))
        5
        """
        encoded = self._encoded(X)
        chains = chains_of(encoded.offsets, self._forest.order)
        with Threads(self.n_jobs) as threads:
            for scores in staged_scores(self._forest, self._encoder, encoded, threads):
                yield split(_marginals(scores, chains, threads), encoded.offsets)

    def predict_log_likelihood(self, X: Any, y: Any) -> np.ndarray:
        """Logarithm of the probability of whole label sequences, log P(y | X).

        Parameters
        ----------
        X : list of sequences
        y : list of array-likes of shape (n_positions,)

        Returns
        -------
        float array (n_sequences,)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X is not like the training data, or y does not fit X; the message says which
            sequence and why.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> log_p = crf.predict_log_likelihood(["nab", "nab"], ["cvc", "vcv"])
        >>> bool(log_p[0] > log_p[1])
        True
        """
        with Threads(self.n_jobs) as threads:
            scores, offsets, codes = self._scores_and_codes(X, y, threads)
            chains = chains_of(offsets, self._forest.order)
            values = np.zeros(len(chains) - 1)
            threads.map(
                lambda part: _inference.log_likelihood(scores, chains, codes, *part, values),
                threads.parts(chains),
            )
        return values if self._forest.order else np.add.reduceat(values, offsets[:-1])

    def decode(self, X: Any) -> tuple[list[np.ndarray], np.ndarray]:
        """Most probable label sequences (Viterbi) and their log-probabilities.

        Parameters
        ----------
        X : list of sequences

        Returns
        -------
        labels : list of arrays (n_positions,)
        log_probabilities : float array (n_sequences,)

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X is not like the training data; the message says which sequence and why.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> labels, log_probabilities = crf.decode(["nab"])
        >>> labels[0].tolist(), log_probabilities.shape
        (['c', 'v', 'c'], (1,))
        """
        with Threads(self.n_jobs) as threads:
            scores, offsets = self._scores(X, threads)
            chains = chains_of(offsets, self._forest.order)
            codes = np.zeros(offsets[-1], dtype=np.int32)
            best, likelihoods = np.zeros(len(chains) - 1), np.zeros(len(chains) - 1)

            def decode_part(part: tuple[int, int]) -> None:
                _inference.viterbi(scores, chains, *part, codes, best)
                _inference.log_likelihood(scores, chains, codes, *part, likelihoods)

            threads.map(decode_part, threads.parts(chains))
        if not self._forest.order:
            likelihoods = np.add.reduceat(likelihoods, offsets[:-1])
        return split(self.classes_[codes], offsets), likelihoods


def _marginals(scores: np.ndarray, chains: np.ndarray, threads: Threads) -> np.ndarray:
    out = np.zeros((scores.shape[1], scores.shape[0]))
    log_z = np.zeros(len(chains) - 1)
    threads.map(
        lambda part: _inference.marginals(scores, chains, *part, out, log_z), threads.parts(chains)
    )
    return out
