"""Tools of MCP servers: sessions through the official SDK, names and schemas for models, contents as text."""
