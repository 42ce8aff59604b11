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
    """Trains models on sequences that are appended, with the methods of python-crfsuite's.

    By default the model is CRFsuite's: a linear-chain model with the same weights, objective,
    parameters and stopping rules. With ``estimator`` it is any estimator of treecrf, such as
    `TreeCRF`, trained on the same attributes.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "pa", "arow"}, default="lbfgs"
        Training algorithm, see `select`.
    params : dict, optional
        Values of parameters, see `params` and `help`.
    verbose : bool, default=True
        Whether to print the log.
    estimator : estimator, optional
        An estimator of treecrf that is trained instead of CRFsuite's model. It is cloned; the
        parameters of the algorithm have no effect.

    Attributes
    ----------
    logparser : TrainLogParser or None
        The iterations of the latest training run; see `TrainLogParser`.
    estimator_ : estimator
        The model of the latest training run: a `LinearCRF`, or a fitted clone of ``estimator``.

    Notes
    -----
    ``l2sgd`` has the objective of ``lbfgs`` without L1 penalty; here it is minimized by L-BFGS,
    which ends closer to the optimum. The order in which the online algorithms ``ap``, ``pa`` and
    ``arow`` visit sequences is another one than in CRFsuite, and so are their weights.

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
    >>> trees = Trainer(verbose=False, estimator=TreeCRF())
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
            The sequence, see `ItemSequence`.
        yseq : iterable of str
            The label of each item.
        group : int, default=0
            Group of the sequence, which `train` may hold out.
        weight : float, default=1.0
            Weight of the sequence: one of weight 10 counts as ten equal ones, so that the model
            labels it correctly, if need be at the cost of others.

        Raises
        ------
        ValueError, TypeError
            If an item or a label is not valid, or their numbers differ; nothing is added then.
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
            L-BFGS (``"lbfgs"``); the same objective without L1 penalty (``"l2sgd"``); the averaged
            perceptron (``"ap"`` or ``"averaged-perceptron"``), the passive-aggressive algorithm
            (``"pa"`` or ``"passive-aggressive"``) or adaptive regularization of weights
            (``"arow"``).
        type : "crf1d"
            The kind of model.

        Raises
        ------
        ValueError
            If there is no such algorithm.
        """
        self._algorithm = algorithm_named(algorithm, type)
        vars(self).pop("_values", None)

    def params(self) -> list[str]:
        """Return the names of the parameters of the algorithm.

        Returns
        -------
        list of str
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
            As `set`.
        """
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """Return the values of all parameters.

        Returns
        -------
        dict
        """
        return dict(self._values)

    def set(self, name: str, value: Any) -> None:
        """Set a parameter; a warning says if it has no effect.

        Parameters
        ----------
        name : str
            One of `params`.
        value : number, bool or str
            Its value, or the text of it.

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
            One of `params`.

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
            One of `params`.

        Returns
        -------
        str

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
            The file to write; an existing one is replaced when training is over. With an empty
            string, the model is only in ``estimator_``.
        holdout : int, default=-1
            Group of sequences that are not used for training. After each iteration the log says
            how many of their labels are found; with -1 there are none.

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
        """Receive a line of the log; it goes to `logparser`, and is printed if `verbose`.

        Parameters
        ----------
        message : str
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
            Its lines.
        info : dict
            Its record, see `TrainLogParser`.
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

    It is the default of `CRF`.

    Parameters
    ----------
    algorithm, params, verbose, estimator
        As in `Trainer`.
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
