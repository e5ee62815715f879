"""Stop-free elasticity: training goes on while workers join, leave, move or die."""
