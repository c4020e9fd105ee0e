"""The browser: a service of its own that runs Chromium for all prompts of a process or pod (docs/decisions/0021).

`client` is what tools use, `server` what the service listens with; `chromium` starts the browser, `session` is one
prompt's, `pages` has what happens by itself, `actions` what tools do, and `proxy` is the only way out to the network.
"""
