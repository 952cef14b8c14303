"""Functions of the step number, for the schedulers `lambda` and `multiplicative`."""


def exponential_decay(step: int) -> float:
    """Return the factor of the first learning rate after `step` steps: 0.95**step."""
    return float(0.95**step)


def constant_factor(step: int) -> float:
    """Return the factor of each step's change of the learning rate: 0.95."""
    return 0.95
