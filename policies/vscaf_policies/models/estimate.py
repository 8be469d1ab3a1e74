"""What is believed of a speedup curve, with its uncertainty: a plain value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeedupEstimate:
    """S(1) ... S(most) as believed, and how sure that is.

    model: name of the model that the evidence prefers; "unknown" without a usable point. mean: S(p) at index p - 1,
    the models' opinions weighted by their evidence. standard_error: of the mean, same length, same unit; 0 at p = 1,
    where S = 1 by definition. weights: probability of each model that was asked, by name; they sum to 1. parameters:
    of the preferred model, by name; none for those without a formula.
    """

    model: str
    mean: tuple[float, ...]
    standard_error: tuple[float, ...]
    weights: tuple[tuple[str, float], ...] = ()
    parameters: tuple[tuple[str, float], ...] = ()

    def speedup(self, cpus: int) -> float:
        """S(cpus): 0 on no CPU, flat beyond the last one."""
        return self.mean[min(cpus, len(self.mean)) - 1] if cpus >= 1 else 0.0

    def uncertainty(self, cpus: int) -> float:
        """Standard error of speedup(cpus): 0 on no CPU, flat beyond the last one."""
        return self.standard_error[min(cpus, len(self.standard_error)) - 1] if cpus >= 1 else 0.0
