"""The model layer: what OpenAI-compatible servers really answer, in one normal form. The only import of `openai`.

`client` asks, `request` words the request, `wire` is the door to the openai package; `failures` sorts errors, `hints`
reads how long to wait, `policy` and `retry` say what is asked again, `gate` when a call may start (with `limiter` and
`outage`), `guard` withholds what quotes a secret; `reply`, `calls`, `text_calls`, `thinking` and `stream` make the
normal form, `images` reads pictures, and `clean` keeps text valid.

Only `wire`, and so `client`, imports openai, which takes long: import `client` only where a model is asked.
"""
