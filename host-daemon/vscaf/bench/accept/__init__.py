"""`vscaf bench accept`: what only a host with KVM can show, in parts that each say passed, failed or not possible."""
