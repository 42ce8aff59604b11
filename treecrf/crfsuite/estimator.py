"""An estimator with the interface of sklearn-crfsuite."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator

from treecrf.crfsuite.dump import ParsedDump
from treecrf.crfsuite.metrics import flat_accuracy_score
from treecrf.crfsuite.tagger import Tagger
from treecrf.crfsuite.trainer import LinePerIterationTrainer
from treecrf.crfsuite.training_log import TrainLogParser

# Names of the parameters of `CRF`, and of those of `Trainer` that they set.
TRAINER_NAMES = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    "c1": "c1",
    "c2": "c2",
    "max_iterations": "max_iterations",
    "num_memories": "num_memories",
    "epsilon": "epsilon",
    "period": "period",
    "delta": "delta",
    "linesearch": "linesearch",
    "max_linesearch": "max_linesearch",
    "calibration_eta": "calibration.eta",
    "calibration_rate": "calibration.rate",
    "calibration_samples": "calibration.samples",
    "calibration_candidates": "calibration.candidates",
    "calibration_max_trials": "calibration.max_trials",
    "pa_type": "type",
    "c": "c",
    "error_sensitive": "error_sensitive",
    "averaging": "averaging",
    "variance": "variance",
    "gamma": "gamma",
}


class CRF(BaseEstimator):
    """The model of CRFsuite, with the parameters, methods and attributes of sklearn-crfsuite.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, default="lbfgs"
        Training algorithm, as in `Trainer.select`.
    min_freq : float, default=0
        Minimum frequency of features. Rarer ones are dropped.
    all_possible_states : bool, default=False
        Whether attributes also have weights for labels with which they never occur in the training
        data.
    all_possible_transitions : bool, default=False
        Whether pairs of labels that never follow each other in the training data also have weights.
    c1 : float, default=0
        Coefficient of the L1 penalty (``"lbfgs"``).
    c2 : float, default=1.0
        Coefficient of the L2 penalty (``"lbfgs"``, ``"l2sgd"``).
    max_iterations : int, optional
        Maximum number of iterations. The default is no limit with ``"lbfgs"``, 1000 with
        ``"l2sgd"``, and 100 with the other algorithms.
    num_memories, epsilon, period, delta, linesearch, max_linesearch : optional
        Parameters of ``"lbfgs"``, which `Trainer.help` describes. Those of the line search have no
        effect.
    calibration_eta, calibration_rate, calibration_samples, calibration_candidates, \
            calibration_max_trials : optional
        Parameters of ``"l2sgd"``, which have no effect.
    pa_type, c, error_sensitive, averaging : optional
        Parameters of ``"pa"``, which `Trainer.help` describes.
    variance, gamma : optional
        Parameters of ``"arow"``, which `Trainer.help` describes.
    verbose : bool, default=False
        Whether to print the log of training.
    model_filename : path-like, optional
        File that `fit` writes the model to. If the file exists already, the model is read from it
        until the next `fit`. It may be a file of CRFsuite.
    keep_tempfiles : bool, default=False
        Has no effect, because there are no temporary files.
    trainer_cls : class, optional
        A class derived from `Trainer`. The default is `LinePerIterationTrainer`.
    estimator : estimator, optional
        An estimator of treecrf, such as `~treecrf.TreeCRF`, to train instead of the model of
        CRFsuite.

    Attributes
    ----------
    classes_ : list of str
        The labels.
    tagger_ : Tagger
        A tagger with the model, for single sequences.
    training_log_ : TrainLogParser
        The log of training, with a record of each iteration.
    estimator_ : estimator
        The fitted `~treecrf.LinearCRF`, or the fitted clone of ``estimator``.
    size_ : int
        Size of the model file in bytes.
    attributes_ : list of str
        Attributes with a nonzero weight. With ``estimator``, all attributes.
    num_attributes_ : int
        Number of attributes in ``attributes_``.
    state_features_, transition_features_ : dict
        Nonzero weights by (attribute, label) and by (previous label, label).

    See Also
    --------
    treecrf.LinearCRF : The same model for windows of any input.
    Trainer : The interface of python-crfsuite.

    Examples
    --------
    >>> from treecrf.crfsuite import CRF
    >>> X = [[{"word": "to"}, {"word": "Rome"}], [{"word": "Oslo"}]]
    >>> y = [["O", "PLACE"], ["PLACE"]]
    >>> crf = CRF(c2=0.1).fit(X, y)
    >>> crf.predict([[{"word": "Oslo"}, {"word": "to"}]])
    [['PLACE', 'O']]
    >>> round(crf.state_features_["word:to", "O"], 2)
    0.75

    With boosted trees:

    >>> from treecrf import TreeCRF
    >>> trees = CRF(estimator=TreeCRF(max_iter=20, min_samples_leaf=1)).fit(X, y)
    >>> trees.predict_single([{"word": "to"}])
    ['O']
    """

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | os.PathLike[str] | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: type | None = None,
        estimator: Any = None,
    ):
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.linesearch = linesearch
        self.max_linesearch = max_linesearch
        self.calibration_eta = calibration_eta
        self.calibration_rate = calibration_rate
        self.calibration_samples = calibration_samples
        self.calibration_candidates = calibration_candidates
        self.calibration_max_trials = calibration_max_trials
        self.pa_type = pa_type
        self.c = c
        self.error_sensitive = error_sensitive
        self.averaging = averaging
        self.variance = variance
        self.gamma = gamma
        self.verbose = verbose
        self.model_filename = model_filename
        self.keep_tempfiles = keep_tempfiles
        self.trainer_cls = trainer_cls
        self.estimator = estimator

    # The model file of the latest fit; None before, or if ``model_filename`` has it.
    _model: bytes | None = None
    _tagger: Tagger | None = None
    _contents: ParsedDump | None = None
    training_log_: TrainLogParser | None = None

    # Training

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Any],
        X_dev: Iterable[Any] | None = None,
        y_dev: Iterable[Any] | None = None,
        sample_weight: Iterable[float] | None = None,
    ) -> Self:
        """Fit the model to labeled sequences.

        Parameters
        ----------
        X : iterable of sequences
            Each sequence is an iterable of items or an `ItemSequence`.
        y : iterable of iterables of str
            The label of each item.
        X_dev, y_dev : optional
            Holdout sequences and their labels, in the same forms. After each iteration, the log
            says how well their labels are predicted.
        sample_weight : iterable of float, optional
            Weight of each sequence. A sequence of weight 10 counts as ten equal ones.

        Returns
        -------
        self : object
            The fitted estimator. If fitting fails, it remains unchanged.

        Raises
        ------
        ValueError, TypeError
            If an argument, a sequence or a parameter is not valid.
        """
        if (X_dev is None) != (y_dev is None):
            raise ValueError("X_dev and y_dev: one is given without the other; pass both")
        trainer = self._trainer()
        append_all(trainer, X, y, 0, sample_weight)
        if X_dev is not None and y_dev is not None:
            append_all(trainer, X_dev, y_dev, 1, None)
        with tempfile.TemporaryDirectory() as folder:
            path = self.model_filename or os.path.join(folder, "model")
            trainer.train(path, holdout=-1 if X_dev is None else 1)
            content = None
            if self.model_filename is None:
                content = Path(path).read_bytes()
        self._model = content
        self._tagger = None
        self._contents = None
        self.training_log_ = trainer.logparser
        self.estimator_ = trainer.estimator_
        return self

    def _trainer(self) -> Any:
        values = {name: getattr(self, own) for own, name in TRAINER_NAMES.items()}
        options = {} if self.estimator is None else {"estimator": self.estimator}
        return (self.trainer_cls or LinePerIterationTrainer)(
            algorithm=self.algorithm,
            params={name: value for name, value in values.items() if value is not None},
            verbose=self.verbose,
            **options,
        )

    # Prediction

    def predict(self, X: Iterable[Any]) -> list[list[str]]:
        """Find the most probable label sequence of each sequence.

        Parameters
        ----------
        X : iterable of sequences
            Each sequence is an iterable of items or an `ItemSequence`.

        Returns
        -------
        list of list of str
            The labels of each sequence.
        """
        return [self.predict_single(sequence) for sequence in X]

    def predict_single(self, xseq: Any) -> list[str]:
        """Find the most probable label sequence of a single sequence.

        Parameters
        ----------
        xseq : iterable of items or ItemSequence
            The sequence.

        Returns
        -------
        list of str
            The label of each item.
        """
        return self._fitted_tagger().tag(xseq)

    def predict_marginals(self, X: Iterable[Any]) -> list[list[dict[str, float]]]:
        """Compute the probability of each label at each item.

        Parameters
        ----------
        X : iterable of sequences
            Each sequence is an iterable of items or an `ItemSequence`.

        Returns
        -------
        list of list of dict
            For each item of each sequence, the probabilities by label.
        """
        return [self.predict_marginals_single(sequence) for sequence in X]

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """Compute the probability of each label at each item of a single sequence.

        Parameters
        ----------
        xseq : iterable of items or ItemSequence
            The sequence.

        Returns
        -------
        list of dict
            For each item, the probabilities by label.
        """
        tagger = self._fitted_tagger()
        tagger.set(xseq)
        return tagger.marginals()

    def score(self, X: Iterable[Any], y: Iterable[Any]) -> float:
        """Compute the accuracy: the fraction of labels that are predicted correctly.

        Parameters
        ----------
        X : iterable of sequences
            Each sequence is an iterable of items or an `ItemSequence`.
        y : iterable of iterables of str
            The true label of each item.

        Returns
        -------
        float
            Accuracy, from 0 to 1.
        """
        return flat_accuracy_score(list(y), self.predict(X))

    # The model

    @property
    def tagger_(self) -> Tagger | None:
        """The tagger of the model; None before `fit`."""
        if self._tagger is not None:
            return self._tagger
        tagger = Tagger()
        if self._model is not None:
            tagger.open_inmemory(self._model)
        elif self.model_filename is not None:
            tagger.open(self.model_filename)
        else:
            return None
        self._tagger = tagger
        return tagger

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        tagger = self.tagger_
        return None if tagger is None else tagger.labels()

    @property
    def size_(self) -> int | None:
        """Size of the model file in bytes."""
        return self._of_contents(lambda info: int(info.header["size"]))

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes of the model."""
        return self._of_contents(lambda info: len(info.attributes))

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes of the model."""
        return self._of_contents(lambda info: list(info.attributes))

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """The weights of attributes and labels."""
        return self._of_contents(lambda info: info.state_features)

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """The weights of labels after labels."""
        return self._of_contents(lambda info: info.transitions)

    def _of_contents(self, get: Any) -> Any:
        tagger = self.tagger_
        if tagger is None:
            return None
        if self._contents is None:
            self._contents = tagger.info()
        return get(self._contents)

    def _fitted_tagger(self) -> Tagger:
        tagger = self.tagger_
        if tagger is None:
            raise ValueError("the CRF is not fitted; call fit first, or pass model_filename")
        return tagger

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        for name in ("_tagger", "_contents"):
            state.pop(name, None)
        return state


def append_all(
    trainer: Any, X: Iterable[Any], y: Iterable[Any], group: int, weights: Iterable[float] | None
) -> None:
    """Append sequences to a trainer; an error names the sequence."""
    options: Iterator[dict] = repeat({})
    if weights is not None:
        options = ({"weight": weight} for weight in weights)
    n = 0
    try:
        for xseq, yseq in zip(X, y, strict=True):
            trainer.append(xseq, yseq, group, **next(options))
            n += 1
    except StopIteration:
        raise ValueError(f"sample_weight has {n} weights; expected one for each sequence") from None
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise
        raise type(error)(f"sequence {n}: {error}") from None
