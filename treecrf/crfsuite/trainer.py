"""Training from single sequences, with the interface of python-crfsuite."""

from __future__ import annotations

import os
from functools import cached_property
from time import process_time
from typing import Any

from treecrf.crfsuite.parameters import Parameter, algorithm_named, algorithm_parameters
from treecrf.crfsuite.training import Dataset, counts_of, train_model
from treecrf.crfsuite.training_log import TrainLog, TrainLogParser
from treecrf.utils.messages import warn


class Trainer:
    """Trains models on sequences that you append, with the methods of python-crfsuite.

    By default, the model is that of CRFsuite: a linear-chain model with the same weights,
    objective, parameters and stopping rules. With ``estimator``, it is any estimator of treecrf,
    such as `~treecrf.TreeCRF`, trained on the same attributes.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, default="lbfgs"
        Training algorithm. `select` describes the choices.
    params : dict, optional
        Values of parameters by name. `params` lists the names, and `help` describes each.
    verbose : bool, default=True
        Whether to print the log.
    estimator : estimator, optional
        An estimator of treecrf to train instead of the model of CRFsuite. It is cloned. The
        parameters of the algorithm then have no effect.

    Attributes
    ----------
    logparser : TrainLogParser or None
        The log of the latest training run, with a record of each iteration.
    estimator_ : estimator
        The model of the latest training run: a `~treecrf.LinearCRF`, or a fitted clone of
        ``estimator``.

    See Also
    --------
    Tagger : Label sequences by a model file.
    CRF : The same models, with the interface of scikit-learn.

    Notes
    -----
    ``l2sgd`` has the objective of ``lbfgs`` without L1 penalty. Here it is minimized by L-BFGS,
    which ends closer to the optimum. The online algorithms ``ap``, ``pa`` and ``arow`` visit the
    sequences in another order than in CRFsuite, so their weights differ.

    References
    ----------
    .. [1] N. Okazaki, "CRFsuite: a fast implementation of conditional random fields", 2007,
       <http://www.chokkan.org/software/crfsuite/>.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.crfsuite import Trainer
    >>> trainer = Trainer(verbose=False, params={"c1": 0.1, "c2": 0.01})
    >>> trainer.append([{"word": "to"}, {"word": "Rome"}], ["O", "PLACE"])
    >>> trainer.append([["word:in"], ["word:Oslo"]], ["O", "PLACE"], weight=2)
    >>> trainer.train("")
    >>> type(trainer.estimator_).__name__
    'LinearCRF'
    >>> round(trainer.logparser.last_iteration["loss"], 1)
    0.7

    With boosted trees instead:

    >>> trees = Trainer(verbose=False, estimator=TreeCRF(max_iter=5))
    >>> trees.append([{"word": "to"}, {"word": "Rome"}], ["O", "PLACE"])
    >>> trees.train("")
    >>> type(trees.estimator_).__name__
    'TreeCRF'
    """

    logparser: TrainLogParser | None = None
    verbose: bool = True
    estimator: Any = None
    _algorithm = "lbfgs"

    def __init__(
        self,
        algorithm: str | None = None,
        params: dict[str, Any] | None = None,
        verbose: bool = True,
        estimator: Any = None,
    ):
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose
        self.estimator = estimator

    # Subclasses need not call the constructor, as in python-crfsuite.

    @cached_property
    def _data(self) -> Dataset:
        return Dataset()

    @cached_property
    def _values(self) -> dict[str, Any]:
        return {name: known.default for name, known in self._known.items()}

    @property
    def _known(self) -> dict[str, Parameter]:
        return algorithm_parameters(self._algorithm)

    # Data

    def append(self, xseq: Any, yseq: Any, group: int = 0, weight: float = 1.0) -> None:
        """Add a training sequence.

        Parameters
        ----------
        xseq : iterable of items or ItemSequence
            The sequence, in a form that `ItemSequence` describes.
        yseq : iterable of str
            The label of each item.
        group : int, default=0
            Group of the sequence. `train` can hold out a group.
        weight : float, default=1.0
            Weight of the sequence. A sequence of weight 10 counts as ten equal ones.

        Raises
        ------
        ValueError, TypeError
            If an item or a label is not valid, or their numbers differ. Nothing is added then.
        """
        self._data.append(xseq, yseq, group, weight)

    def clear(self) -> None:
        """Remove all sequences."""
        self._data = Dataset()

    # Parameters

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose an algorithm, with the default values of its parameters.

        Parameters
        ----------
        algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}
            Training algorithm:

            - ``"lbfgs"``: maximum likelihood by L-BFGS, with L1 and L2 penalties.
            - ``"l2sgd"``: the same objective without L1 penalty.
            - ``"ap"`` or ``"averaged-perceptron"``: the averaged perceptron.
            - ``"pa"`` or ``"passive-aggressive"``: the passive-aggressive algorithm.
            - ``"arow"``: adaptive regularization of weights.
        type : str, default="crf1d"
            The kind of model. There is only this one.

        Raises
        ------
        ValueError
            If there is no such algorithm or kind of model.
        """
        self._algorithm = algorithm_named(algorithm, type)
        vars(self).pop("_values", None)

    def params(self) -> list[str]:
        """Return the names of the parameters of the algorithm.

        Returns
        -------
        list of str
            Names, such as ``"c2"``. `help` describes each.
        """
        return list(self._known)

    def set_params(self, params: dict[str, Any]) -> None:
        """Set parameters.

        Parameters
        ----------
        params : dict
            Values by name.

        Raises
        ------
        ValueError
            As in `set`.
        """
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """Return the values of all parameters.

        Returns
        -------
        dict
            Values by name.
        """
        return dict(self._values)

    def set(self, name: str, value: Any) -> None:
        """Set a parameter. A warning says if it has no effect.

        Parameters
        ----------
        name : str
            Name of the parameter, one of those that `params` returns.
        value : number, bool or str
            Value of the parameter, or its text.

        Raises
        ------
        ValueError
            If the algorithm has no such parameter, or the value is not valid.
        """
        parameter = self._known_parameter(name)
        converted = parameter.read(name, value)
        if parameter.is_unused and converted != parameter.default:
            warn(f"{name}={value!r} has no effect in treecrf; see Trainer.help({name!r})")
        self._values[name] = converted

    def get(self, name: str) -> Any:
        """Return the value of a parameter.

        Parameters
        ----------
        name : str
            Name of the parameter, one of those that `params` returns.

        Returns
        -------
        number, bool or str
            Value of the parameter.

        Raises
        ------
        ValueError
            If the algorithm has no such parameter.
        """
        self._known_parameter(name)
        return self._values[name]

    def help(self, name: str) -> str:
        """Return the description of a parameter.

        Parameters
        ----------
        name : str
            Name of the parameter, one of those that `params` returns.

        Returns
        -------
        str
            What the parameter means.

        Raises
        ------
        ValueError
            If the algorithm has no such parameter.
        """
        return self._known_parameter(name).help

    def _known_parameter(self, name: str) -> Parameter:
        if name not in self._known:
            raise ValueError(
                f"{self._algorithm} has no parameter {name!r}; expected one of "
                f"{', '.join(self._known)}"
            )
        return self._known[name]

    # Training

    def train(self, model: str | os.PathLike[str], holdout: int = -1) -> None:
        """Train a model, and write it to a file.

        Parameters
        ----------
        model : path-like
            File to write. An existing file is replaced when training is over. With an empty string,
            no file is written, and the model is in ``estimator_``.
        holdout : int, default=-1
            Group of sequences that are not used for training. After each iteration, the log says
            how well their labels are predicted. With -1, all sequences are used for training.

        Raises
        ------
        ValueError
            If there are no training sequences, or training fails.
        OSError
            If the file cannot be written.
        """
        self._before_train()
        self._warn_of_parameters()
        log = TrainLog(self.message)
        fitted = train_model(
            self._data, holdout, self._algorithm, self._values, self.estimator, log
        )
        begin = process_time()
        if model:
            fitted.save(model)
        self.estimator_ = fitted
        log.stored(counts_of(fitted), process_time() - begin)

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()

    def _warn_of_parameters(self) -> None:
        """Warn of parameters that an estimator does not use."""
        names = [name for name, known in self._known.items() if self._values[name] != known.default]
        if self.estimator is not None and names:
            warn(
                f"{', '.join(names)}: no effect with estimator={type(self.estimator).__name__}, "
                "which has parameters of its own"
            )

    # The log

    def message(self, message: str) -> None:
        """Receive a line of the log. It goes to ``logparser``, and is printed if ``verbose``.

        Parameters
        ----------
        message : str
            The line.
        """
        assert self.logparser is not None
        event = self.logparser.feed(message)
        if not self.verbose or event is None:
            return
        log = self.logparser.last_log
        if event == "featgen_progress":
            self.on_featgen_progress(log, self.logparser.featgen_percent)
        elif event == "iteration":
            self.on_iteration(log, self.logparser.last_iteration)
        else:
            getattr(self, f"on_{event}")(log)

    def on_start(self, log: str) -> None:
        """Print the first lines."""
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        """Print the progress of reading the sequences."""
        print(log, end="")

    def on_featgen_end(self, log: str) -> None:
        """Print the number of features."""
        print(log, end="")

    def on_prepared(self, log: str) -> None:
        """Print the settings of the algorithm."""
        print(log, end="")

    def on_prepare_error(self, log: str) -> None:
        """Print an error before the first iteration."""
        print(log, end="")

    def on_iteration(self, log: str, info: Any) -> None:
        """Print an iteration.

        Parameters
        ----------
        log : str
            The lines of the iteration.
        info : dict
            The record of the iteration, as in the attribute ``iterations`` of `TrainLogParser`.
        """
        print(log, end="")

    def on_optimization_end(self, log: str) -> None:
        """Print why training is over."""
        print(log, end="")

    def on_end(self, log: str) -> None:
        """Print what has been stored."""
        print(log, end="")


class LinePerIterationTrainer(Trainer):
    """A `Trainer` that prints a line for each iteration, and a table of holdout labels at the end.

    It is the default ``trainer_cls`` of `CRF`.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, default="lbfgs"
        Training algorithm, as in `Trainer`.
    params : dict, optional
        Values of parameters by name, as in `Trainer`.
    verbose : bool, default=True
        Whether to print the log.
    estimator : estimator, optional
        An estimator of treecrf to train instead of the model of CRFsuite, as in `Trainer`.

    Examples
    --------
    >>> from treecrf.crfsuite import LinePerIterationTrainer
    >>> trainer = LinePerIterationTrainer(params={"max_iterations": 2})
    >>> trainer.append([{"word": "to"}, {"word": "Rome"}], ["O", "PLACE"])
    >>> trainer.train("")  # doctest: +ELLIPSIS
    Feature generation
    ...
    Iter 1    time=...  loss=1.17      active=3      feature_norm=0.50
    Iter 2    time=...  loss=1.17      active=3      feature_norm=0.42
    L-BFGS terminated with the maximum number of iterations
    ...
    """

    def on_iteration(self, log: str, info: Any) -> None:
        """Print the numbers of an iteration in one line."""
        formats = {
            "num": "Iter {:<3} ",
            "time": "time={:<5.2f} ",
            "loss": "loss={:<8.2f} ",
            "active_features": "active={:<5} ",
            "avg_precision": "precision={:0.3f} ",
            "avg_recall": "recall={:0.3f} ",
            "avg_f1": "F1={:0.3f} ",
            "item_accuracy_float": "item accuracy={:0.3f} ",
            "instance_accuracy_float": "sequence accuracy={:0.3f} ",
            "feature_norm": "feature_norm={:<8.2f}",
        }
        parts = [text.format(info[name]) for name, text in formats.items() if name in info]
        print(" ".join(parts).strip())

    def on_optimization_end(self, log: str) -> None:
        """Print the performance by label of the last iteration."""
        assert self.logparser is not None
        scores = (self.logparser.last_iteration or {}).get("scores")
        if scores:
            width = max(map(len, scores))
            print(f"{'Label':<{width}}  precision  recall     F1  support")
            for label, score in sorted(scores.items()):
                ratios = [ratio or 0.0 for ratio in (score.precision, score.recall, score.f1)]
                precision, recall, f1 = ratios
                print(
                    f"{label:<{width}}  {precision:9.3f}  {recall:6.3f}  {f1:5.3f}  {score.ref:7}"
                )
        super().on_optimization_end(log)
