"""Fits and applies a model, once, or repeatedly until the named file exists. Prints the distinct results: one line if
every round gave the same."""

import hashlib
import sys
from pathlib import Path

import numpy
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import pairwise_distances_argmin


def digest(array: numpy.ndarray) -> str:
    return hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()


random = numpy.random.default_rng(5)
samples = random.normal(size=(3000, 12))
classes = (samples[:, 0] * samples[:, 1] + samples[:, 2] > 0).astype(int)
outcomes = set()
while True:
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(samples, classes)
    nearest = pairwise_distances_argmin(samples, samples[:40])
    outcomes.add((digest(model.predict_proba(samples)), digest(nearest), model.score(samples, classes)))
    if len(sys.argv) < 2 or Path(sys.argv[1]).exists():
        break
for outcome in sorted(outcomes):
    print(*outcome)
