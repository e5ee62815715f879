"""Order of the samples, and the processes and threads that load them."""
