"""The log-likelihood at factored scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treecrf import _inference
from treecrf.chains.factored.factored_scores import FactoredScores
from treecrf.chains.likelihood import LogLikelihood


class FactoredLikelihood(LogLikelihood):
    """Sum of log P over the sequences, of factored scores."""

    def value(self, scores: FactoredScores) -> float:
        """Compute the value at the scores."""
        log_likelihood = self._kernel()

        def compute(first: int, last: int) -> None:
            log_likelihood(scores, self.chains, self.codes, first, last, self.likelihoods)

        self.run_in_threads(compute)
        if self._unknown is not None:
            self._subtract_unknown(scores)
        return self._value()

    def _kernel(self) -> Callable[..., None]:
        """Return the kernel that computes log P of chains whose labels are all known."""
        return _inference.log_likelihood

    def _subtract_unknown(self, scores: FactoredScores) -> None:
        """Turn log-likelihoods of the codes into log-likelihoods of the known labels."""
        restricted = scores.restricted(self.candidates)
        conditional = np.empty(len(self.likelihoods))
        numbers = self._unknown.numbers
        neighbors = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
        self.threads.map(
            lambda run: _inference.log_likelihood(
                restricted, self.chains, self.codes, run[0], run[-1] + 1, conditional
            ),
            [run for run in neighbors if len(run)],
        )
        self.likelihoods[numbers] -= conditional[numbers]
