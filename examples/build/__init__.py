"""A second way through the lessons: an engine of one's own, built in ten steps (`python -m examples.build --list`).

`engine/` holds the solutions; `steps.py` cuts the holes into them; `checks/` says what is right and what is wrong;
`judge.py` runs the checks in a process of their own; `milestones.py` lets the student's engine do something visible;
`notebooks.py` writes the steps as notebooks for Jupyter and nbgrader.
"""
