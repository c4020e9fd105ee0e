// Package process runs commands: it starts, bounds, watches, kills and reaps them.
package process

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"batchrun.dev/sandboxd/internal/confine"
)

// Reaper starts processes and collects every ended child, also orphans that were never started here.
// It is the only caller of wait in the program: os/exec would race with it.
type Reaper struct {
	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
	start   confine.Start
}

// NewReaper begins to reap.
func NewReaper() *Reaper {
	r := &Reaper{waiting: map[int]chan syscall.WaitStatus{}, start: syscall.ForkExec}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			r.reap()
		}
	}()
	return r
}

// DenyNetwork lets no program that is started from now on make a socket but those of AF_UNIX.
func (r *Reaper) DenyNetwork() error {
	start, err := confine.NewStart()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = start
	return nil
}

// Start runs a program. The channel gets its status once.
func (r *Reaper) Start(path string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	// Held over the fork, so that a child that ends at once is not reaped before it is known.
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := r.start(path, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	status := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = status
	return pid, status, nil
}

func (r *Reaper) reap() {
	for {
		r.mu.Lock()
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == nil && pid > 0 {
			if waiting, ok := r.waiting[pid]; ok {
				delete(r.waiting, pid)
				waiting <- status
			}
		}
		r.mu.Unlock()
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}

// HasChildren says whether any process below this one is left, alive or not yet reaped. It costs
// one system call: an orphan of a command is our child, so no child means no descendant.
func (r *Reaper) HasChildren() bool {
	const (
		anyChild = 0
		noReap   = 0x01000000
		exited   = 4
	)
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, anyChild, 0, 0, syscall.WNOHANG|exited|noReap, 0, 0)
	return errno != syscall.ECHILD
}

// AwaitNoChildren reaps until nothing is left or the time is over.
func (r *Reaper) AwaitNoChildren(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for r.HasChildren() {
		if time.Now().After(deadline) {
			return false
		}
		r.reap()
		time.Sleep(time.Millisecond)
	}
	return true
}
