package process

import (
	"encoding/base64"
	"errors"
	"os"
	"syscall"
	"time"

	"batchrun.dev/sandboxd/internal/wire"
)

// JobStatus is one line of the list. ExitCode means nothing while Running.
type JobStatus struct {
	ProcessID  string `json:"process_id"`
	PID        int    `json:"pid"`
	Command    string `json:"command"`
	Running    bool   `json:"running"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal"`
	DurationMS int64  `json:"duration_ms"`
}

// PollArgs asks for output from a byte offset on; TimeoutMS waits that long for the end, 0 not at all.
type PollArgs struct {
	ProcessID  string `json:"process_id"`
	FromByte   int64  `json:"from_byte"`
	LimitBytes int    `json:"limit_bytes"`
	TimeoutMS  int64  `json:"timeout_ms"`
}

// PollResult carries the output since FromByte; NextByte is where the following poll begins.
type PollResult struct {
	JobStatus
	Output   Output `json:"output"`
	NextByte int64  `json:"next_byte"`
}

// Poll returns state and new output of one process.
func (b *Background) Poll(args PollArgs) (*PollResult, error) {
	if args.LimitBytes < minLimitBytes || args.LimitBytes > maxLimitBytes || args.FromByte < 0 {
		return nil, wire.Errorf(wire.InvalidArgument, "limit_bytes must be from %d to %d, from_byte from 0", minLimitBytes, maxLimitBytes)
	}
	j, err := b.find(args.ProcessID)
	if err != nil {
		return nil, err
	}
	if args.TimeoutMS > 0 {
		select {
		case <-j.ended:
		case <-time.After(min(time.Duration(args.TimeoutMS)*time.Millisecond, maxTimeout)):
		}
	}
	status := j.describe()
	output, next := j.log.since(args.FromByte, args.LimitBytes)
	return &PollResult{JobStatus: status, Output: output, NextByte: next}, nil
}

// ListResult holds every known process, oldest first.
type ListResult struct {
	Processes []JobStatus `json:"processes"`
}

// List describes all processes that were started.
func (b *Background) List() *ListResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	result := &ListResult{Processes: []JobStatus{}}
	for _, id := range b.order {
		result.Processes = append(result.Processes, b.byID[id].describe())
	}
	return result
}

// InputArgs is data (base64) for a process's standard input; Close ends the input after it.
type InputArgs struct {
	ProcessID string `json:"process_id"`
	Data      string `json:"data"`
	Close     bool   `json:"close"`
}

// InputResult says how much the process's pipe took.
type InputResult struct {
	WrittenBytes int `json:"written_bytes"`
}

// Input writes to a process, for at most writePatience: one that does not read must not hold the call.
func (b *Background) Input(args InputArgs) (*InputResult, error) {
	j, err := b.find(args.ProcessID)
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(args.Data)
	if err != nil || len(data) > maxWriteBytes {
		return nil, wire.Errorf(wire.InvalidArgument, "data must be base64 of at most %d bytes", maxWriteBytes)
	}
	_ = j.stdin.SetWriteDeadline(time.Now().Add(writePatience))
	written, err := j.stdin.Write(data)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) {
		return nil, wire.Errorf(wire.IO, "the process %s does not read its input any more", args.ProcessID)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, err
	}
	if args.Close {
		_ = j.stdin.Close()
	}
	return &InputResult{WrittenBytes: written}, nil
}

// KillArgs names the process to end.
type KillArgs struct {
	ProcessID string `json:"process_id"`
}

// Kill asks the process to end and then ends everything that it started.
func (b *Background) Kill(args KillArgs) (*JobStatus, error) {
	j, err := b.find(args.ProcessID)
	if err != nil {
		return nil, err
	}
	if !j.hasEnded() {
		_ = syscall.Kill(-j.process.pid, syscall.SIGTERM)
		select {
		case <-j.ended:
		case <-time.After(terminateGrace):
		}
	}
	j.process.group.KillOwned()
	select {
	case <-j.ended:
	case <-time.After(killPatience):
	}
	status := j.describe()
	return &status, nil
}

func (j *job) describe() JobStatus {
	status := JobStatus{ProcessID: j.id, PID: j.process.pid, Command: j.command, Running: !j.hasEnded()}
	if status.Running {
		status.DurationMS = time.Since(j.began).Milliseconds()
		return status
	}
	status.ExitCode, status.Signal = describe(j.status)
	status.DurationMS = j.elapsed.Milliseconds()
	return status
}
