"""`prove`: the gradients that the tape computes are the derivatives of the forward pass, at given sizes.

prover.py       `prove`, `assert_gradient`: checks its arguments, chooses the kind of proof, and collects the evidence
passes.py       one forward and backward pass over symbols: each gradient against its derivative
assumptions.py  the comparisons on which a proof rests, as sentences
probing.py      difference quotients at other points, which may refute a proof
questions.py    questions that exact numbers answer otherwise than floats: nothing is proved
sampling.py     proofs at the size of training, by random residues modulo a prime
proof.py        the result, and its text
advice.py       error messages: the line of the user's code, and what to do
"""
