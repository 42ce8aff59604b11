"""Random calls with objects whose methods raise, lie, or change what is being read.

Whatever happens, there is no crash, and the model and its later predictions stay as they were.
"""

from __future__ import annotations

import copy
import functools
import gc
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from support.unusual import CELLS, FORMS, labels, numbers

from treecrf import (
    HMMClassifier,
    LinearCRF,
    SlidingWindowClassifier,
    StructuredPerceptron,
    TreeCRF,
    TreeMEMM,
)

SMALL = {"max_iter": 3, "early_stopping": False}
MODELS = {
    "CRF": TreeCRF(init="linear", window=1, **SMALL),
    "CRF on samples": TreeCRF(init="zero", sampling=0.5, **SMALL),
    "MEMM": TreeMEMM(window=1, **SMALL),
    "window": SlidingWindowClassifier(window=1, **SMALL),
    "linear": LinearCRF(window=1, max_iter=5),
    "perceptron": StructuredPerceptron(max_iter=2),
    "HMM": HMMClassifier(),
}
KINDS = (
    "numbers", "characters", "words", "integers as symbols", "dicts", "frames",
    "dicts for a model of frames",
)  # fmt: skip
SYMBOLS = ("characters", "words", "integers as symbols")
# How often a method of an object does something else than what it should.
RATE = 0.15
# Calls of methods after which objects behave.
MAX_EVENTS = 40


class Boom(Exception):
    """Raised by objects."""


class Trouble:
    """What objects do when one of their methods is called."""

    def __init__(self, seed: int, rate: float):
        self.rng = np.random.default_rng(seed)
        self.rate = rate
        self.targets: list[Any] = []
        self.n_events = 0
        self.is_on = False

    def here(self) -> bool:
        """Return whether something happens now; it may raise an error or change an object."""
        if not self.is_on or self.n_events > MAX_EVENTS or self.rng.random() > self.rate:
            return False
        self.n_events += 1
        event = self.rng.integers(8)
        if event == 0:
            raise [Boom, ValueError, TypeError, KeyError, MemoryError][self.rng.integers(5)]("boom")
        if event == 1:
            gc.collect()
        elif event < 6 and self.targets:
            self._change(self.targets[self.rng.integers(len(self.targets))])
        return True

    def _change(self, target: Any) -> None:
        is_dict = isinstance(target, dict)
        change, value = self.rng.integers(6), CELLS[self.rng.integers(len(CELLS))]
        kind = dict if is_dict else list
        if change == 0 or not kind.__len__(target):
            kind.clear(target)
        elif change == 1:
            dict.popitem(target) if is_dict else list.pop(target, 0)
        elif change == 2 and is_dict:
            dict.update(target, {f"new {i}": value for i in range(100)})
        elif change == 2:
            list.extend(target, [value] * 1000)
        elif change == 3 and is_dict:
            dict.__setitem__(target, next(dict.__iter__(target)), value)
        elif change == 3:
            list.__setitem__(target, -1, value)
        elif change == 4 and not is_dict:
            list.reverse(target)

    def odd(self, value: Any) -> Any:
        """Return a value, or something else."""
        return CELLS[self.rng.integers(len(CELLS))] if self.here() else value

    def size(self, n: int) -> int:
        """Return a length, or another one."""
        if not self.here():
            return n
        return int([0, n - 1, n + 1, 2 * n, 10**6, -1, 2**62][self.rng.integers(7)])


def _wrapped(kind: type, names: str, result: Callable[[Trouble, Any], Any]) -> dict[str, Any]:
    """Make methods that call those of the base class, and may do something else."""

    def method(name: str) -> Callable:
        original = getattr(kind, name)

        @functools.wraps(original)
        def call(self, *arguments, **named):
            trouble = getattr(type(self), "trouble", None)
            if trouble is None:
                return original(self, *arguments, **named)
            return result(trouble, original(self, *arguments, **named))

        return call

    return {name: method(name) for name in names.split() if hasattr(kind, name)}


def classes(trouble: Trouble) -> dict[str, type]:
    """Make the classes of troublesome objects."""

    def same(trouble: Trouble, value: Any) -> Any:
        trouble.here()
        return value

    def derived(name: str, kind: type, plain: str, odd: str) -> type:
        methods = _wrapped(kind, plain, same) | _wrapped(kind, odd, Trouble.odd)
        methods |= _wrapped(kind, "__len__", Trouble.size)
        return type(name, (kind,), methods | {"trouble": trouble})

    compared = "__hash__ __eq__ __ne__ __lt__ __gt__ __le__ __ge__ __bool__"
    made = {
        "str": derived("Str", str, f"{compared} __iter__ __contains__ __getitem__ encode",
                       "__str__ lower strip"),
        "float": derived("Float", float, f"{compared} __add__ __sub__ __mod__ is_integer",
                         "__float__ __int__ __abs__"),
        "int": derived("Int", int, f"{compared} __add__ __mod__ __and__",
                       "__index__ __int__ __float__"),
        "dict": derived("Dict", dict, "__iter__ __contains__ keys values items",
                        "__getitem__ get"),
        "list": derived("List", list, "__iter__ __contains__", "__getitem__"),
        "array": derived("Array", np.ndarray, "__iter__ __array_finalize__ astype ravel copy",
                         "__getitem__ tolist"),
        "frame": derived("Frame", pd.DataFrame, "__iter__ copy", "__getitem__"),
    }  # fmt: skip

    class Number:
        """Converted by methods only."""

        def __init__(self, value):
            self.value = value

        def __float__(self):
            return trouble.odd(float(self.value))

        def __index__(self):
            return trouble.odd(int(self.value))

    class Items(Sequence):
        def __init__(self, values):
            self.values = values

        def __len__(self):
            return trouble.size(len(self.values))

        def __getitem__(self, i):
            return trouble.odd(self.values[i])

    class Entries(Mapping):
        def __init__(self, values):
            self.values_ = values

        def __len__(self):
            return trouble.size(len(self.values_))

        def __iter__(self):
            trouble.here()
            return iter(self.values_)

        def __getitem__(self, key):
            return trouble.odd(self.values_[key])

    class Container:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            trouble.here()
            return np.asarray(self.values, dtype)

        def __len__(self):
            return trouble.size(len(self.values))

        @property
        def shape(self):
            trouble.here()
            return np.shape(self.values)

    return made | {"number": Number, "items": Items, "entries": Entries, "container": Container}


class Disguise:
    """Replaces some objects by troublesome ones of the same value."""

    def __init__(self, trouble: Trouble):
        self.rng = np.random.default_rng(trouble.rng.integers(2**32))
        self.trouble = trouble
        self.kinds = classes(trouble)
        self.rate = self.rng.choice([0.1, 0.5, 1.0])

    def _chosen(self) -> bool:
        return self.rng.random() < self.rate

    def of(self, value: Any) -> Any:
        """Return a value, or a troublesome object in its place."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, (list, tuple)):
            return self._list(list(value))
        if not self._chosen():
            return value
        if isinstance(value, pd.DataFrame):
            return self.kinds["frame"](value)
        if isinstance(value, np.ndarray):
            name = self.rng.choice(["array", "array", "container"])
            return value.view(self.kinds["array"]) if name == "array" else self.kinds[name](value)
        if type(value) in (float, int) and self.rng.random() < 0.3:
            return self.kinds["number"](value)
        made = self.kinds.get(type(value).__name__)
        return value if made is None or isinstance(value, bool) else made(value)

    def _dict(self, value: dict) -> Any:
        found = {self.of(key): self.of(item) for key, item in value.items()}
        if self._chosen():
            found = self.kinds["dict"](found)
        self.trouble.targets.append(found)
        return self.kinds["entries"](found) if self.rng.random() < 0.1 else found

    def _list(self, value: list) -> Any:
        found = [self.of(item) for item in value]
        if self._chosen():
            found = self.kinds["list"](found)
        self.trouble.targets.append(found)
        return self.kinds["items"](found) if self.rng.random() < 0.1 else found


def _data(kind: str, rng: np.random.Generator, lengths: list[int]) -> tuple[list, list]:
    tables = [numbers(n, rng) for n in lengths]
    return [FORMS[kind](x) for x in tables], [labels(x) for x in tables]


@functools.cache
def fitted(name: str, kind: str) -> Any:
    """Fit a model to plain data."""
    X, y = _data(kind, np.random.default_rng(0), [8] * 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.deepcopy(MODELS[name]).fit(X, y)


def _call(model: Any, kind: str, seed: int, trouble: Trouble) -> Any:
    """Call a method with disguised arguments."""
    rng = np.random.default_rng(seed)
    sizes = [[3], [1, 4], [64], [70], [40, 40]][rng.integers(5)]
    X, y = _data(kind, rng, sizes)
    if kind == "dicts for a model of frames":
        X = [x.to_dict("records") for x in X]
    disguise = Disguise(trouble)
    X, plain = disguise.of(X), X
    doors = ("predict", "predict_proba", "decode", "log", "score", "known", "allowed", "stream",
             "long", "groups", "fit", "weights", "init_score")  # fmt: skip
    door = doors[rng.integers(len(doors))]
    trouble.is_on = True
    if door in ("predict", "predict_proba", "decode"):
        return getattr(model, door)(X)
    if door == "log":
        return model.predict_log_likelihood(X, disguise.of(y))
    if door == "score":
        return model.score(X, disguise.of(y))
    if door == "known":
        known = [[label if rng.random() < 0.3 else None for label in item] for item in y]
        return model.predict(X, known=disguise.of(known))
    if door == "allowed":
        sets = [[["a", "b", "c"][: 1 + rng.integers(3)] for _ in item] for item in y]
        return model.predict(X, allowed=disguise.of(sets))
    if door == "stream":
        stream = model.stream(lag=int(rng.integers(3)))
        return [stream.push(row) for row in X[0]] + stream.finish()
    if door in ("long", "groups") and isinstance(plain[0], list):
        long = disguise.of([row for item in plain for row in item])
        if door == "long":
            return model.predict(long, lengths=disguise.of(sizes))
        groups = [i for i, size in enumerate(sizes) for _ in range(size)]
        return model.predict(long, groups=disguise.of(groups))
    other = copy.deepcopy(model)
    named = {}
    if door == "weights":
        named["sample_weight"] = disguise.of([rng.random(len(item)).tolist() for item in y])
    elif door == "init_score":
        named["init_score"] = disguise.of([rng.random((len(item), 3)).tolist() for item in y])
    before = dict(vars(other))
    try:
        return other.fit(X, disguise.of(y), **named)
    except BaseException:
        assert vars(other).keys() == before.keys()
        assert all(vars(other)[key] is before[key] for key in before), "a failed fit left traces"
        raise


def run_objects(seed: int) -> str:
    """Run a case; AssertionError if the model differs afterwards, or a result is not valid."""
    rng = np.random.default_rng(seed)
    kind = KINDS[rng.integers(len(KINDS))]
    names = [name for name in MODELS if kind in SYMBOLS or name != "HMM"]
    model = fitted(names[rng.integers(len(names))], kind)
    clean = _data(kind, np.random.default_rng(1), [5, 5])[0]
    expected = np.concatenate(model.predict_proba(clean))
    trouble = Trouble(seed, rate=0.0 if rng.random() < 0.1 else RATE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _call(model, kind, seed, trouble)
            outcome = "worked"
    except SystemError as error:  # of a compiled module that breaks a rule of Python
        raise AssertionError(f"SystemError: {error}") from error
    except AssertionError:
        raise
    except (Exception, Boom):
        found, outcome = None, "refused"
    finally:
        trouble.is_on = False
    if isinstance(found, list) and found and isinstance(found[0], np.ndarray):
        for item in found:
            assert item.dtype.kind != "f" or np.allclose(item.sum(axis=-1), 1)
    np.testing.assert_array_equal(np.concatenate(model.predict_proba(clean)), expected)
    return outcome
