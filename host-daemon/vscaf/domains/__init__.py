"""The domains that are looked after: registry, lifecycle, what is inferred of each, and how each is given back."""
