"""The log-likelihood at factored scores, as it is computed while samples are drawn."""

from __future__ import annotations

from collections.abc import Callable

from treecrf.chains.factored.likelihood import FactoredLikelihood
from treecrf.chains.sampled import _sampling


class SampledLikelihood(FactoredLikelihood):
    """Sum of log P over the sequences, to the last bit as samples are drawn."""

    def _kernel(self) -> Callable[..., None]:
        """Return the kernel of samples; it computes chains with unknown labels otherwise."""
        if self._unknown is not None:
            return super()._kernel()
        return _sampling.log_likelihood
