"""`vscaf top`: a live view of the daemon. All but `app.py`, `widgets.py` and `feed.py` are pure functions."""
