"""Stop-free elasticity and torchft side by side: the same scale-out and the same death."""
