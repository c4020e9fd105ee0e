"""Everything between the runner and a prompt's container: protocol, connection, listener, who starts sandboxes."""
