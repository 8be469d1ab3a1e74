"""How many CPUs each domain gets: the policy's answer, damped, and sizes that are tried to learn more."""
