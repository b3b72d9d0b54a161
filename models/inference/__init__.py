"""Text and translations from a trained model, and a look inside.

generate.py   text, a token at a time, from the decoder
translate.py  translations from the encoder-decoder; where its words attend, how its sublayers change the stream
report.py     the parameter table of eq. (19), and where each head of the decoder attends
"""
