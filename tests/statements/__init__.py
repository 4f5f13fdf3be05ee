"""Every statement of a router that perhop models, and what shows that it does what the router does.

A module for each family has its statements: a configuration with the statement, what the router
does with it by its maker's document, and the same configuration with another value. Those of Linux
are measured, too (`linux_shapers.json`). `test_statements.py` walks through them, and through the
words that the readers know: a word that no statement here has is not modelled, or forgotten.

`python -m statements` in this folder's parent prints how many are checked and approximated.
"""
