"""Accuracy of perhop: tables of theoretical values beside measured ones.

`make validate` prints every table; `python -m validation NAME` some. A row has what is expected,
what was measured, how far apart they may be, and whether they are no farther. What was printed last
is kept in RESULTS.md; a test checks that the quick tables still say what it has.
"""
