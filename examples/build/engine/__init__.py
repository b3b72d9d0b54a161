"""An engine that computes gradients, built in ten steps (`python -m examples.build` writes and checks the steps)."""
