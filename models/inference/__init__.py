"""What a trained model gives: text, translations, and a look inside.

generate.py   text, a token at a time, from the decoder
translate.py  translations from the encoder-decoder; where its words attend, what its sublayers write
report.py     the parameter table of eq. (19), and where each head of the decoder attends
"""
