"""Adding new trees to factored scores, in the training on samples."""
