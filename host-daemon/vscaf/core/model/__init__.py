"""What a domain can make of CPUs: its demand, its speedup curve, SCAF's weight, and how far a guest is believed."""
