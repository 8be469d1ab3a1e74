"""An estimated speedup curve with its uncertainty: a plain value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeedupEstimate:
    """Estimates of S(1) ... S(most) and their standard errors.

    model: name of the most probable model; "unknown" without a usable point. mean: S(p) at index p - 1, the models'
    curves weighted by their probability. standard_error: of the mean, same length, same unit; 0 at p = 1, where S = 1
    by definition. weights: probability of each model that was fitted, by name; they sum to 1. parameters: of the most
    probable model, by name; none for a model without a formula.
    """

    model: str
    mean: tuple[float, ...]
    standard_error: tuple[float, ...]
    weights: tuple[tuple[str, float], ...] = ()
    parameters: tuple[tuple[str, float], ...] = ()

    def speedup(self, cpus: int) -> float:
        """S(cpus): 0 on 0 CPUs, constant beyond the last one."""
        return self.mean[min(cpus, len(self.mean)) - 1] if cpus >= 1 else 0.0

    def uncertainty(self, cpus: int) -> float:
        """Standard error of speedup(cpus): 0 on 0 CPUs, constant beyond the last one."""
        return self.standard_error[min(cpus, len(self.standard_error)) - 1] if cpus >= 1 else 0.0
