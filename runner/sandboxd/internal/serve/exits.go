// Package serve connects sandboxd to the runner and answers its requests until one of them ends.
package serve

// Exit codes of `sandboxd serve`; docs/protocol.md has the same table, and Go itself uses 2 for a crash.
const (
	ExitEnded      = 0  // told to end, or the prompt was over before (`done` file)
	ExitFailed     = 1  // could not begin to serve
	ExitRunnerGone = 3  // the runner's connection ended after it was used: come back fresh
	ExitProtocol   = 4  // the runner sent what is no protocol
	ExitUsage      = 64 // wrong command line
)
