package serve

import (
	"encoding/json"

	"batchrun.dev/sandboxd/internal/files"
	"batchrun.dev/sandboxd/internal/process"
	"batchrun.dev/sandboxd/internal/wire"
)

type operation func(args json.RawMessage) (any, error)

// typed joins a function over its own argument type to the table of operations.
func typed[Args, Result any](run func(Args) (Result, error)) operation {
	return func(raw json.RawMessage) (any, error) {
		var args Args
		if err := wire.Decode(raw, &args); err != nil {
			return nil, err
		}
		return run(args)
	}
}

// operations is everything that touches the prompt's processes and files.
func operations(runner *process.Runner, background *process.Background, files files.Files) map[string]operation {
	return map[string]operation{
		"exec":       typed(func(args process.ExecArgs) (*process.ExecResult, error) { return runner.Exec(args, background) }),
		"start":      typed(background.Start),
		"poll":       typed(background.Poll),
		"input":      typed(background.Input),
		"kill":       typed(background.Kill),
		"list":       typed(func(wire.Empty) (*process.ListResult, error) { return background.List(), nil }),
		"read_bytes": typed(files.ReadBytes),
		"read_lines": typed(files.ReadLines),
		"write":      typed(files.Write),
		"stat":       typed(files.Stat),
		"mkdir":      typed(files.MakeDirectory),
		"list_dir":   typed(files.List),
		"search":     typed(files.Search),
	}
}
