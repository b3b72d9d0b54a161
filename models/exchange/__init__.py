"""Models that were trained elsewhere, made into runs, and runs written for other programs.

gpt2.py     the names, shapes and switches of GPT-2, as Hugging Face and nanoGPT write them, beside those of the decoder
folders.py  the folders that hold such models: weights, configuration, vocabulary
"""

from models.exchange.folders import ExchangeError, export_run, import_folder

__all__ = ["ExchangeError", "export_run", "import_folder"]
