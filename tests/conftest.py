"""What all tests have in common."""

from hypothesis import settings

# An example's time says nothing on a machine that also trains.
settings.register_profile("elastrace", deadline=None)
settings.load_profile("elastrace")
