"""How a model is trained: the loop, checkpoints, several processes, and the memory that a run needs.

trainer.py     settings, one step recorded and replayed, evaluation, the log, the first tensor that became NaN
checkpoint.py  everything that a run needs to go on bit for bit
exchange.py    models of other programs as checkpoints, and a run as Hugging Face's GPT-2: their folders
gpt2.py        GPT-2's names, shapes and switches beside those of the decoder
ranks.py       one run on several processes
memory.py      how much memory a run needs at least
"""
