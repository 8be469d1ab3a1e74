"""Settings of all property tests in this directory."""

from hypothesis import HealthCheck, settings

# Time says nothing about these laws, and machines that run the tests are busy: no deadline for an example.
settings.register_profile("vscaf", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("vscaf")
