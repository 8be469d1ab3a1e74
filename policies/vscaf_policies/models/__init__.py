"""Models of a program's speedup S(p), fitted from measured points and chosen by evidence.

`fit_curve(points, most)` gives a `SpeedupEstimate`: S(1) ... S(most) with a standard error for each. All models have
S(1) = 1. This package imports numpy, so a policy imports it only if it needs curves.

| name | S(p) | parameters | source |
|---|---|---|---|
| `log` | 1 + C ln p | C >= 0.05 | SCAF: Creech 2015, eq. 4.2 |
| `amdahl` | 1 / (f + (1 - f) / p) | serial part f in 0 ... 1 | Amdahl 1967 |
| `usl` | p / (1 + sigma (p - 1) + kappa p (p - 1)) | contention sigma in 0 ... 1, coherence kappa in 0 ... 10; \
falls beyond p = sqrt((1 - sigma) / kappa) | Gunther 2007, universal scalability law |
| `downey` | A p / (A + h (p - 1)) until it bends into the plateau A; h = sigma/2 for sigma <= 1, \
sigma / (1 + sigma) above | average parallelism A in 1 ... 16,384, its variation sigma in 0 ... 2 | \
Downey 1997, a model for speedup of parallel programs |
| `monotone` | the model `free`, projected to the nearest curve that never falls | none | isotonic regression |
| `free` | plain curve x exp(r(ln p)), r a Gaussian process with r(0) = 0 | amplitude, length and roughness of r, \
integrated out | Rasmussen and Williams 2006, chapter 2 |

Space. Fits are made in ln S over ln p. In ln S an error in proportion to S is constant and does not bias the curve. A
straight line in this space is a power of p. Only the C of `log` is fitted in S, because SCAF does so.

Evidence. The score of a model is its marginal likelihood: the likelihood of the points, averaged over the model's
parameters with a prior. Unlike BIC and AICc it needs no count of parameters, so it can compare formulas with a Gaussian
process. It works for one point as well as for sixty-four. It also prefers simpler models: a model that could explain
many other data spreads its prior over them. `PRIOR` adds two preferences: formulas over shape-free models, and curves
that never fall over curves that do. So `free` wins only if precise points fall and no formula follows them, as for the
HPX hierarchy scheduler, which is slower on 8 CPUs than on 4.

Uncertainty. The estimate is the mixture of all models by their probability, in ln S. Its error is small where models
agree and large where they differ, mostly far from the points. Two terms are added to the variance within and between
the models: `MISFIT` for each formula, and `UNFORESEEN_PER_E_FOLD` for each factor of e to the nearest measured size.
`model` names the most probable one. If the errors of the points are too small, so is the error of the estimate. This
shows only if points of the same size contradict each other.
"""

from vscaf_policies.models.estimate import SpeedupEstimate
from vscaf_policies.models.fitting import MODELS, PRIOR, fit_curve, fit_together
from vscaf_policies.models.points import DRIFT_PER_S

__all__ = ["DRIFT_PER_S", "MODELS", "PRIOR", "SpeedupEstimate", "fit_curve", "fit_together"]
