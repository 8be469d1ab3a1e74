"""How domains come to what was decided: the next steps from the state that is observed to the goal."""
