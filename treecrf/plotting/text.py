"""A labeled text in HTML: spans in colors, with their probabilities."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from treecrf.inputs.labels import encode_labels
from treecrf.inspection.fitted import check_model
from treecrf.inspection.spans import SpanRules, find_spans
from treecrf.plotting.common import COLORS
from treecrf.plotting.one_sequence import OneSequence, symbols_of, true_codes
from treecrf.utils.typing import GroupsLike, LabelsLike

OF_SPAN = "background: {}55; padding: 0.15em 0; border-radius: 0.2em"
OF_ERROR = "border-bottom: 2px solid #d1242f"


class HtmlText(str):
    """A text in HTML, which notebooks show."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def highlight_text(
    model: Any,
    x: Any,
    y: LabelsLike | str | None = None,
    *,
    symbols: Any = None,
    prefixes: bool | None = None,
    groups: GroupsLike = None,
    group: Any = None,
) -> HtmlText:
    """Write a text in HTML in which the predicted spans have colors.

    Labels stand after the spans of words, and in a legend below characters. If the pointer is over
    a span, its probability is shown. Errors are underlined in red, and show the true label.

    Parameters
    ----------
    model : fitted classifier
        Any classifier of treecrf.
    x : sequence or long table
        One sequence, in a form that the model accepts, or a long table with ``groups``.
    y : array-like of shape (n_positions,) or str, optional
        True labels, or the name of the data frame column that holds them.
    symbols : list of str, optional
        The texts of the positions; by default the input if it consists of symbols. Spaces separate
        them, unless all are single characters.
    prefixes : bool, optional
        Whether labels have the prefixes of a tagging scheme, as in `treecrf.inspection.find_spans`.
    groups, group : optional
        The sequence of a long table, as in `plot_sequence`.

    Returns
    -------
    str
        A ``<div>``, which Jupyter notebooks show as the last value of a cell, and which may be part
        of any page.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        If x does not match the training data, or y or ``symbols`` does not match x, or the input
        has no symbols and none are given.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.plotting import highlight_text
    >>> X = [["Ada", "Lovelace", "met", "Mary"], ["Mary", "met", "Ada"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O", "B-PER"]]
    >>> crf = LinearCRF(l2_regularization=0.1).fit(X, y)
    >>> text = highlight_text(crf, ["Mary", "met", "Ada"])
    >>> text[text.index(">Mary"):text.index(" met")]
    '>Mary<small> PER</small></span>'
    """
    check_model(model)
    one = OneSequence.of(model, x, y, None, groups, group)
    labels = model.predict([one.x])[0]
    texts = symbols_of(model, one.x, len(labels), symbols)
    if len(texts) != len(labels):
        raise ValueError("x holds no symbols; pass the text of each position as symbols=")
    are_words = any(len(text) > 1 for text in texts)
    texts = [escape(text) for text in texts]
    if one.y is not None:
        true = true_codes(model, one)
        for t in np.flatnonzero(true != encode_labels([labels], model.classes_)):
            title = escape(f"true: {model.classes_[true[t]]}")
            texts[t] = f'<span title="{title}" style="{OF_ERROR}">{texts[t]}</span>'
    names = SpanRules.of(model.classes_, prefixes).names
    colors = {name: OF_SPAN.format(COLORS[k % len(COLORS)]) for k, name in enumerate(names)}
    space, parts, end = " " if are_words else "", [], 0
    for span in find_spans(model, [one.x], [labels], prefixes=prefixes):
        title, name = escape(f"{span.label}, probability {span.probability:.2f}"), str(span.label)
        inside = space.join(texts[span.start : span.end])
        after = f"<small> {escape(name)}</small>" if are_words else ""
        style = colors[span.label]
        parts += texts[end : span.start]
        parts.append(f'<span title="{title}" style="{style}">{inside}{after}</span>')
        end = span.end
    text = space.join([*parts, *texts[end:]])
    if not are_words:
        chips = (f'<span style="{colors[name]}">{escape(str(name))}</span>' for name in colors)
        text += f"\n\n<small>{' '.join(chips)}</small>"
    return HtmlText(f'<div style="white-space: pre-wrap; line-height: 1.6">{text}</div>')
