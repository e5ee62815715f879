"""Jobs whose workers are started and restarted by the agents of ``torchrun``."""
