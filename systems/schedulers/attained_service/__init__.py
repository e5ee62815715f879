"""Orders by attained service, for Tiresias and its elastic version."""
