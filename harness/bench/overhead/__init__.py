"""Cost of a step under a backend, compared with a step of stock DistributedDataParallel."""
