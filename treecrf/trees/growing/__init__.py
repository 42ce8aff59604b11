"""Growing trees: settings, tests, histograms, splits and surrogates."""
