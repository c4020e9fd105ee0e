package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"batchrun.dev/sandboxd/internal/facts"
	"batchrun.dev/sandboxd/internal/wire"
)

// The kernel refuses a single argument of 128 KiB.
const maxCommandBytes = 120 << 10

// firstVictim makes a command, and all that it starts, what the kernel kills when memory is short: else it takes the
// largest process, which under a fork bomb is the helper. The shell says it of itself, before it can fork.
const firstVictim = "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null\n"

// Command is what a shell is asked to run.
type Command struct {
	Command string            `json:"command"`
	Cwd     string            `json:"cwd"`
	Env     map[string]string `json:"env"`
}

// Runner starts commands in this sandbox.
type Runner struct {
	reaper      *Reaper
	environment *facts.Environment
	devNull     uintptr
	oomPath     string
	launched    atomic.Uint64
	limitKills  atomic.Int64
	started     chan struct{} // wakes the count of processes
}

// NewRunner opens what every command needs: a command may delete /dev/null later.
func NewRunner(reaper *Reaper, environment *facts.Environment) (*Runner, error) {
	devNull, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	return &Runner{
		reaper: reaper, environment: environment, devNull: uintptr(devNull), oomPath: memoryEvents("/"),
		started: make(chan struct{}, 1),
	}, nil
}

type child struct {
	pid    int
	group  Group
	exited <-chan syscall.WaitStatus
}

// start runs script by the shell in a session of its own; files are the child's descriptors.
func (r *Runner) start(command Command, script string, files []uintptr) (child, error) {
	if err := check(command); err != nil {
		return child{}, err
	}
	shell := facts.Shell(r.environment.Get("PATH"))
	if shell == "" {
		return child{}, wire.Errorf(wire.NoShell, "this image has neither bash nor sh: commands cannot run, files can be read and written")
	}
	tag := fmt.Sprintf("%s.%d", r.environment.Get(facts.BootVariable), r.launched.Add(1))
	extra := map[string]string{"PWD": command.Cwd}
	for name, value := range command.Env {
		extra[name] = value
	}
	extra[tagVariable] = tag
	attr := &syscall.ProcAttr{
		Dir:   command.Cwd,
		Env:   r.environment.With(extra),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	began := bootTicks()
	pid, exited, err := r.reaper.Start(shell, []string{shell, "-c", firstVictim + script}, attr)
	if err != nil {
		return child{}, startError(shell, err)
	}
	select {
	case r.started <- struct{}{}:
	default:
	}
	return child{pid: pid, group: Group{Tag: tag, Session: pid, Start: began}, exited: exited}, nil
}

func check(command Command) error {
	if len(command.Command) > maxCommandBytes {
		return wire.Errorf(wire.TooLarge, "the command has %d bytes, %d are possible: put it in a file and run that", len(command.Command), maxCommandBytes)
	}
	if strings.ContainsRune(command.Command, 0) {
		return wire.Errorf(wire.InvalidArgument, "the command contains a NUL byte")
	}
	for name, value := range command.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return wire.Errorf(wire.InvalidArgument, "%q is no environment variable", name)
		}
	}
	return checkCwd(command.Cwd)
}

func checkCwd(cwd string) error {
	info, err := os.Stat(cwd)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return wire.Errorf(wire.NotFound, "the working directory %s does not exist", cwd)
	case err != nil:
		return err
	case !info.IsDir():
		return wire.Errorf(wire.NotADirectory, "the working directory %s is not a directory", cwd)
	}
	const search = 1
	if err := syscall.Access(cwd, search); err != nil {
		return wire.Errorf(wire.PermissionDenied, "the working directory %s may not be entered", cwd)
	}
	return nil
}

func startError(shell string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EACCES):
		return wire.Errorf(wire.NoShell, "the shell %s does not start: %s", shell, err)
	case errors.Is(err, syscall.E2BIG):
		return wire.Errorf(wire.TooLarge, "command and environment are too long together: %s", err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return wire.Errorf(wire.Limit, "no process can be started: %s", err)
	}
	return fmt.Errorf("start %s: %w", shell, err)
}
