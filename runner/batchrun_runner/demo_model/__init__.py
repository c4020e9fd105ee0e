"""A deterministic OpenAI-compatible server for the quickstart and for tests. It is no model: every reply is scripted.

`command` is the verb, `server` serves, `http` speaks HTTP/1.1, `script` reads scripts, `replies` makes up the turns,
`streaming` sends them in pieces.
Never imports `openai`: the client is tested against it.
"""
