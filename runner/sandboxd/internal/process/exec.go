package process

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"batchrun.dev/sandboxd/internal/wire"
)

const (
	minLimitBytes = 256
	maxLimitBytes = 1 << 20
	maxTimeout    = 24 * time.Hour
	maxPathBytes  = 4096
)

// The shell tells its last working directory through a descriptor that scripts rarely use. On a line
// of its own, so that a syntax error in the command is not reported together with it.
const (
	cwdDescriptor = 7
	cwdPrelude    = "trap 'pwd 2>/dev/null >&7' EXIT\n"
)

const noFile = ^uintptr(0)

// ExecArgs asks for one command. TimeoutMS is at least 1, LimitBytes bounds the kept output.
type ExecArgs struct {
	Command
	TimeoutMS  int64 `json:"timeout_ms"`
	LimitBytes int   `json:"limit_bytes"`
}

// ExecResult is how a command ended. Signal is "" unless one ended the shell; Cwd is where the shell
// stood at its end. Leftover counts all processes alive below sandboxd but those that `start` made.
type ExecResult struct {
	ExitCode          int    `json:"exit_code"`
	Signal            string `json:"signal"`
	TimedOut          bool   `json:"timed_out"`
	Output            Output `json:"output"`
	Cwd               string `json:"cwd"`
	CwdExists         bool   `json:"cwd_exists"`
	DurationMS        int64  `json:"duration_ms"`
	OOMKills          int64  `json:"oom_kills"`
	ProcessLimitKills int64  `json:"process_limit_kills"`
	LeftoverProcesses int    `json:"leftover_processes"`
}

// Exec runs a command to its end or its timeout, which kills everything that it started.
func (r *Runner) Exec(args ExecArgs, background *Background) (*ExecResult, error) {
	timeout := time.Duration(args.TimeoutMS) * time.Millisecond
	if timeout <= 0 || timeout > maxTimeout {
		return nil, wire.Errorf(wire.InvalidArgument, "timeout_ms must be from 1 to %d", maxTimeout.Milliseconds())
	}
	if args.LimitBytes < minLimitBytes || args.LimitBytes > maxLimitBytes {
		return nil, wire.Errorf(wire.InvalidArgument, "limit_bytes must be from %d to %d", minLimitBytes, maxLimitBytes)
	}
	before := r.counters()
	began := time.Now()
	output := NewBounded(args.LimitBytes)
	process, capture, report, err := r.launch(args, output)
	if err != nil {
		return nil, err
	}
	defer report.Close()
	result := &ExecResult{}
	status, timedOut := await(process, timeout)
	result.TimedOut = timedOut
	result.ExitCode, result.Signal = describe(status)
	capture.finish()
	result.Output = output.Output()
	result.DurationMS = time.Since(began).Milliseconds()
	result.Cwd, result.CwdExists = lastCwd(report, args.Cwd)
	after := r.counters()
	result.OOMKills = after.oom - before.oom
	result.ProcessLimitKills = after.limit - before.limit
	result.LeftoverProcesses = r.leftover(background)
	return result, nil
}

type counters struct{ oom, limit int64 }

func (r *Runner) counters() counters {
	oom := int64(0)
	if r.oomPath != "" {
		oom = max(0, oomKills(r.oomPath))
	}
	return counters{oom: oom, limit: r.limitKills.Load()}
}

func (r *Runner) launch(args ExecArgs, output *Bounded) (child, *capture, *os.File, error) {
	capture, outputEnd, err := newCapture(output, io.Discard)
	if err != nil {
		return child{}, nil, nil, err
	}
	defer syscall.Close(outputEnd)
	report, reportEnd, err := outputPipe()
	if err != nil {
		capture.file.Close()
		return child{}, nil, nil, err
	}
	defer syscall.Close(reportEnd)
	files := []uintptr{r.devNull, uintptr(outputEnd), uintptr(outputEnd), noFile, noFile, noFile, noFile, noFile}
	files[cwdDescriptor] = uintptr(reportEnd)
	process, err := r.start(args.Command, cwdPrelude+args.Command.Command, files)
	if err != nil {
		capture.file.Close()
		report.Close()
		return child{}, nil, nil, err
	}
	go capture.run()
	return process, capture, report, nil
}

// await waits for the shell; at the timeout it ends the whole group.
func await(process child, timeout time.Duration) (syscall.WaitStatus, bool) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case status := <-process.exited:
		return status, false
	case <-timer.C:
	}
	process.group.KillHidden()
	select {
	case status := <-process.exited:
		return status, true
	case <-time.After(killPatience):
		return syscall.WaitStatus(syscall.SIGKILL), true // stuck in the kernel: dead for all that we can do
	}
}

// describe gives 128 + signal as exit code where a signal ended the shell, as shells themselves do.
func describe(status syscall.WaitStatus) (int, string) {
	if status.Signaled() {
		return 128 + int(status.Signal()), signalName(status.Signal())
	}
	return status.ExitStatus(), ""
}

func lastCwd(report *os.File, previous string) (string, bool) {
	raw := make([]byte, maxPathBytes+1)
	cwd := strings.TrimSuffix(string(raw[:readNow(report, raw)]), "\n")
	if !filepath.IsAbs(cwd) || !utf8.ValidString(cwd) {
		cwd = previous
	}
	info, err := os.Stat(cwd)
	return cwd, err == nil && info.IsDir()
}

// leftover counts what lives on without anybody having asked for a background process.
func (r *Runner) leftover(background *Background) int {
	if !r.reaper.HasChildren() {
		return 0
	}
	asked := background.tags()
	count := 0
	for _, tag := range owners(Descendants(os.Getpid())) {
		if !asked[tag] {
			count++
		}
	}
	return count
}
