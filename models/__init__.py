"""The transformers of documents 000 to 004, their data, training and inference (`python -m models`)."""
