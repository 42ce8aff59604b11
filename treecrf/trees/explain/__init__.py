"""What trees say: contributions of features to scores, and conditions of leaves."""
