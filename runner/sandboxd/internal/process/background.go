package process

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"batchrun.dev/sandboxd/internal/text"
	"batchrun.dev/sandboxd/internal/wire"
)

const (
	maxBackground   = 64
	logBytes        = 256 << 10
	maxWriteBytes   = 1 << 20
	writePatience   = 2 * time.Second
	terminateGrace  = 2 * time.Second
	commandPreviewB = 200
)

// Background holds the processes that `start` made, the ended ones too until room is needed.
type Background struct {
	runner *Runner
	mu     sync.Mutex
	last   int
	order  []string
	byID   map[string]*job
}

type job struct {
	id      string
	command string
	process child
	began   time.Time
	stdin   *os.File
	log     *log
	ended   chan struct{}
	status  syscall.WaitStatus
	elapsed time.Duration
}

// NewBackground makes an empty list.
func NewBackground(runner *Runner) *Background {
	return &Background{runner: runner, byID: map[string]*job{}}
}

// Started names a new background process.
type Started struct {
	ProcessID string `json:"process_id"`
	PID       int    `json:"pid"`
}

// Start runs a command in the background with a pipe as its input.
func (b *Background) Start(command Command) (*Started, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.makeRoom(); err != nil {
		return nil, err
	}
	j, err := b.launch(command)
	if err != nil {
		return nil, err
	}
	b.last++
	j.id = fmt.Sprintf("p%d", b.last)
	b.byID[j.id] = j
	b.order = append(b.order, j.id)
	return &Started{ProcessID: j.id, PID: j.process.pid}, nil
}

func (b *Background) launch(command Command) (*job, error) {
	kept := newLog(logBytes)
	capture, outputEnd, err := newCapture(kept, kept)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(outputEnd)
	stdin, readEnd, err := inputPipe()
	if err != nil {
		capture.file.Close()
		return nil, err
	}
	defer syscall.Close(readEnd)
	process, err := b.runner.start(command, command.Command, []uintptr{uintptr(readEnd), uintptr(outputEnd), uintptr(outputEnd)})
	if err != nil {
		capture.file.Close()
		stdin.Close()
		return nil, err
	}
	j := &job{
		command: preview(command.Command), process: process, began: time.Now(),
		stdin: stdin, log: kept, ended: make(chan struct{}),
	}
	go capture.run()
	go j.awaitEnd(capture)
	return j, nil
}

// awaitEnd seals the log before it says so: a poll after the end sees all that was written before it.
func (j *job) awaitEnd(capture *capture) {
	j.status = <-j.process.exited
	j.elapsed = time.Since(j.began)
	j.stdin.Close()
	capture.finish()
	close(j.ended)
}

// makeRoom forgets the oldest ended process when the list is full.
func (b *Background) makeRoom() error {
	if len(b.order) < maxBackground {
		return nil
	}
	for index, id := range b.order {
		if b.byID[id].hasEnded() {
			delete(b.byID, id)
			b.order = append(b.order[:index], b.order[index+1:]...)
			return nil
		}
	}
	return wire.Errorf(wire.Limit, "%d background processes are running already", maxBackground)
}

func (b *Background) find(id string) (*job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j, ok := b.byID[id]; ok {
		return j, nil
	}
	return nil, wire.Errorf(wire.NotFound, "there is no background process %q", id)
}

// tags are the marks of all processes that were started on purpose.
func (b *Background) tags() map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	tags := map[string]bool{}
	for _, j := range b.byID {
		tags[j.process.group.Tag] = true
	}
	return tags
}

func (j *job) hasEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

func preview(command string) string {
	if len(command) <= commandPreviewB {
		return command
	}
	return string(text.TrimHead([]byte(command[:commandPreviewB]))) + "…"
}
