"""The model layer: what OpenAI-compatible servers really answer, in one normal form. The only import of `openai`.

`client` asks, `request` words the request, `wire` is the door to the openai package, `retry` says what is asked
again, `failures` sorts errors, `guard` withholds what quotes a secret; `reply`, `calls` and `thinking` make the normal
form, and `clean` keeps text valid. Only `wire`, and so `client`, imports openai, which takes long: import `client` only
where a model is asked.
"""
