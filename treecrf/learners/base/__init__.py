"""What all learners share: training, fitted models and their public methods."""
