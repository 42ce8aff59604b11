"""Training and prediction on a Dask cluster."""
