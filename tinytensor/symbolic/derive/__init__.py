"""derive: the gradient of a function of tensors for any size, in index notation, with its proof.

arguments.py   sizes that are symbols, and the numbers that stand for them in a run
facts.py       what is known of an argument: symmetric, positive definite
conditions.py  at which sizes and values a proof holds, and the verdict
domains.py     where operations have a value and a derivative
precision.py   float64 while a function is read
samples.py     numbers that try to refute a derivation, and the conditions that excuse a difference
values.py      a tensor's entries as formulas, and the lines that have names
semantics/     what each operation computes, entry by entry
trace.py       from the terms of a reading (../reading/) to a program of lines
loops.py       a loop over a size, read as one step, as recurrences and sums
recurrences.py the adjoint of a recurrence
adjoints.py    adjoints, their rewriting, and the proof of each
factors.py     adjoints in the factors in which a person writes them
shorter.py     adjoints as short as a textbook has them
modules.py     a Module as a function of its parameters
results.py     lines with their verdict, their comparison in numbers, and how they are shown
derivation.py  the gradients, which are such a result
forward_mode.py  derivatives forward through lines, as lines
second.py      Hessians, Jacobians and their products with a direction, and these in numbers
orders.py      `derive`, `jvp`, `hvp`, `gauss_newton`: which derivatives are meant
code_lines.py  the lines of a program in NumPy, and its loops
source.py      a derivation as a program in NumPy, and its run
check.py       `check`: is a gradient by hand the derived one?
by_hand.py     a gradient by hand, in numbers and as formulas in the names of the function
recurrences_by_hand.py   the recurrences of a gradient by hand as those of the function
"""
