"""The managed domains: registry, lifecycle, inferred demand and speedup, and how they are given back."""
