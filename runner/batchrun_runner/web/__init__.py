"""The web as the tools see it: which addresses may be asked, pages as text, search providers.

`addresses` judges, `transport` asks what was judged, `pages` reads and converts, `search` has the providers.
"""
