"""Tools that do not depend on sequences, labels or trees."""
