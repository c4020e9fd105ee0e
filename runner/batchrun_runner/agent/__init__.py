"""The agent: one prompt worked on by a model with tools, and what is kept of it. It knows neither sandboxes nor stores.

`loop` is the loop, `talk` the state of one prompt, `draw` the toolsets of a prompt,
`trajectory` the row that is written.
"""
