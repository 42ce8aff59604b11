"""Scorers of sklearn-crfsuite, for ``scoring=`` of scikit-learn's model selection."""

from sklearn.metrics import make_scorer

from treecrf.crfsuite.metrics import flat_accuracy_score, sequence_accuracy_score

flat_accuracy = make_scorer(flat_accuracy_score)
sequence_accuracy = make_scorer(sequence_accuracy_score)
