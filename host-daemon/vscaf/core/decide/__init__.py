"""How many CPUs each domain gets: the policy's answer, damped, and other sizes that are explored."""
