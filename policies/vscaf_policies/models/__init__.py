"""tbd"""

from vscaf_policies.models.estimate import SpeedupEstimate
from vscaf_policies.models.fitting import MODELS, PRIOR, fit_curve

__all__ = ["MODELS", "PRIOR", "SpeedupEstimate", "fit_curve"]
