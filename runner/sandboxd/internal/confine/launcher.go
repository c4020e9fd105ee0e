package confine

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	prSetNoNewPrivs   = 38
	prSetSeccomp      = 22
	seccompModeFilter = 2
)

// Start is syscall.ForkExec, or does the same.
type Start func(path string, argv []string, attr *syscall.ProcAttr) (int, error)

type request struct {
	path  string
	argv  []string
	attr  *syscall.ProcAttr
	reply chan<- reply
}

type reply struct {
	pid int
	err error
}

// NewStart returns a Start whose programs, and all that they start, can make no sockets but those of
// AF_UNIX, and gain no privileges by a set-uid file.
//
// The filter lies on one thread of this process, which only starts programs: a child has the filter of the
// thread that made it before its first instruction, so there is no moment in which another can use it.
// Go makes no thread from a locked one, so nothing else of this process gets the filter.
func NewStart() (Start, error) {
	requests, ready := make(chan request), make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		err := install(filter(machine))
		ready <- err
		if err != nil {
			return
		}
		for one := range requests {
			pid, err := syscall.ForkExec(one.path, one.argv, one.attr)
			one.reply <- reply{pid, err}
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	return func(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
		answer := make(chan reply, 1)
		requests <- request{path, argv, attr, answer}
		got := <-answer
		return got.pid, got.err
	}, nil
}

// install puts the filter on this thread. Without new privileges it needs no capability.
func install(made program) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("no_new_privs: %w", errno)
	}
	given := syscall.SockFprog{Len: uint16(len(made)), Filter: &made[0]}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetSeccomp, seccompModeFilter, uintptr(unsafe.Pointer(&given)), 0, 0, 0)
	runtime.KeepAlive(made)
	if errno != 0 {
		return fmt.Errorf("seccomp filter: %w", errno)
	}
	return nil
}
