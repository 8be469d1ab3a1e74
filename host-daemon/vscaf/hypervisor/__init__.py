"""What acts on domains."""
