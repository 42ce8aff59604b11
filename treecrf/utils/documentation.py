"""Link from the HTML representation of an estimator to its documentation."""

from __future__ import annotations

from typing import Any


class DocumentationLink:
    """Mixin of estimators; it precedes scikit-learn's ``BaseEstimator``."""

    _doc_link_module = "treecrf"
    _doc_link_template: Any = (
        "https://treecrf.readthedocs.io/en/latest/api/generated/treecrf.{estimator_name}.html"
    )
