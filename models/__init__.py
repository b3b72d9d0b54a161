"""The transformers of the seed documents, what they read, and how they are trained (`python -m models`)."""
