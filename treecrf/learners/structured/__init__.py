"""Linear learners with training of their own: perceptron, maximum margin, sequence boosting."""
