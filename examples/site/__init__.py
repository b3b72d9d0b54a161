"""The course's site, built by one command: `python -m examples.site` (needs the `site` extra).

It runs the lessons, and writes a folder that opens from a disk, without a server and without a network:

    python -m examples.site                                  # everything, to runs/site; open runs/site/index.html
    python -m examples.site --only 01_derivative 03_chain_rule   # these lessons only, without other parts
    python -m examples.site --quick                          # without the proofs at the size of training
    python -m examples.site --slides --pdf                   # slides of each lesson, and the course as one PDF, too
    python -m examples.site --without-solutions              # for a class

**The builder is Sphinx with MyST and furo.** Sphinx has what a documentation needs and a converter of notebooks lacks:
one search over lessons, proofs and API, which works from a disk (its index is a script, not a request); objects with
their signatures; links that are checked; pages that are built anew only if they changed. furo is readable on a phone,
dark and light, and loads nothing from elsewhere.

**The lessons are run here, not by myst-nb.** A page needs more than a notebook has: the description of each picture and
its form for dark pages, pages that a lesson writes, and an error that names the lesson and its cell. These come from
the files that a cell writes (`running.py`, some hundred lines with nbclient).

**Formulas are MathML**, by latex2mathml, as in the walkthroughs: browsers typeset it by themselves, without scripts.

`running.py` runs lessons and keeps what they give. The pages' sources in Markdown are written by `pages.py`, those of
the derived gradients by `gradients.py`, and those of the API by `reference.py` of `tinytensor.utils.docs`.
`questions.py` reads the page of questions, and gives its words to the search, whose order is that of `scorer.js`.
`building.py` calls Sphinx; `checking.py` looks at the result; `slides.py` and `printing.py` make slides and PDF from
the finished pages.
"""
