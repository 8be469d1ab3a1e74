"""Pure functions: model, demand, decision, placement and plan. No clock, no I/O, no libvirt."""
