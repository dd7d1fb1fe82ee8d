"""straightway: from a trained model to the fastest instructions on a device."""

__version__ = "0.1.0"
