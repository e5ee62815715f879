"""MLflow as a mirror of stored runs."""
