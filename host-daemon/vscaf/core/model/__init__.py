"""How well a domain can use CPUs: its demand, its speedup curve, SCAF's weight, and how far a guest is believed."""
