"""Models of a program's speedup S(p), fitted from measured points and chosen by evidence.

`fit_curve(points, most)` gives a `SpeedupEstimate`: S(1) ... S(most) with a standard error for each. All models have
S(1) = 1. A policy imports this package, and with it numpy, only if it wants curves.

| name | S(p) | parameters | source |
|---|---|---|---|
| `log` | 1 + C ln p | C >= 0.05 | SCAF: Creech 2015, eq. 4.2 |
| `amdahl` | 1 / (f + (1 - f) / p) | serial part f in 0 ... 1 | Amdahl 1967 |
| `usl` | p / (1 + sigma (p - 1) + kappa p (p - 1)) | contention sigma in 0 ... 1, coherence kappa in 0 ... 10; \
falls beyond p = sqrt((1 - sigma) / kappa) | Gunther 2007, universal scalability law |
| `downey` | A p / (A + h (p - 1)) until it bends into the plateau A; h = sigma/2 for sigma <= 1, \
sigma / (1 + sigma) above | average parallelism A in 1 ... 16,384, its variation sigma in 0 ... 2 | \
Downey 1997, a model for speedup of parallel programs |
| `monotone` | the shape-free one, projected to the nearest curve that never falls | none | isotonic regression |
| `free` | plain curve x exp(r(ln p)), r a Gaussian process with r(0) = 0 | amplitude, length and roughness of r, \
integrated out | Rasmussen and Williams 2006, chapter 2 |

Space. Fits are made in ln S over ln p. There an error in proportion to S has one size everywhere and does not pull
curves down, and a straight piece is a power of p. Only the C of `log` is fitted in S, because SCAF does so.

Evidence. Each model is scored by its marginal likelihood: the likelihood of the points, averaged over the model's
parameters with a prior. It needs no count of parameters, as BIC and AICc do, so it compares formulas with a Gaussian
process, it holds for one point as well as for sixty-four, and it prefers the simpler model by itself: one that could
have explained many other data has spread its prior over them. `PRIOR` adds what is believed before: formulas before
shape-free ones, a curve that never falls before one that does. So `free` wins only where precise points fall and no
formula falls with them, as for the HPX hierarchy scheduler, slower on 8 CPUs than on 4.

Uncertainty. The estimate is the mixture of all models by their probability, in ln S: where they agree it is sure, where
they part, mostly away from the points, it is not. To the variance within and between models come two terms for what no
model foresees: `MISFIT` of each formula, and `UNFORESEEN_PER_E_FOLD` for each factor of e to the nearest measured size.
`model` names the most probable one. Errors of points that are too small make an estimate too sure: only points of one
size that contradict each other show that.
"""

from vscaf_policies.models.estimate import SpeedupEstimate
from vscaf_policies.models.fitting import MODELS, PRIOR, fit_curve
from vscaf_policies.models.points import DRIFT_PER_S

__all__ = ["DRIFT_PER_S", "MODELS", "PRIOR", "SpeedupEstimate", "fit_curve"]
