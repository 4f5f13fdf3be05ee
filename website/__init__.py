"""The documentation as a site: pages of `docs/`, and a reference that is made from the code.

`make docs` builds it with MkDocs (`mkdocs.yml`). `reference` makes the pages of the reference and
needs nothing but perhop; `links` says where the links of a page lead; `hooks` is what MkDocs calls.
"""
