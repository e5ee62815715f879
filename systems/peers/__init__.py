"""Programs by other hands or of other design, which trainings are compared with."""
