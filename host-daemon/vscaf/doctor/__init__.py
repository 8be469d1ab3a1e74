"""`vscaf doctor`: facts of a host and its domains, the checks of these facts, and their findings."""
