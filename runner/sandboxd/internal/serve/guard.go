package serve

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	prSetDumpable       = 4
	prSetChildSubreaper = 36
)

// guard makes this process hard to hit from below: no ptrace, no reading of its memory and
// descriptors, orphans adopted here, signals without effect. `leaving` becomes true with SIGTERM.
func guard(leaving *atomic.Bool) error {
	if err := prctl(prSetDumpable, 0); err != nil {
		return err
	}
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		return err
	}
	ignoreSignals(leaving)
	return nil
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("prctl %d: %w", option, errno)
	}
	return nil
}

// ignoreReserved is for the signals that libc keeps for itself and os/signal does not take: their default action is
// the end of the process, and a pod's helper was seen to end by one in a storm of signals. Commands inherit this;
// a libc in them that needs one of these signals sets its own handler.
func ignoreReserved(number syscall.Signal) {
	const ignored, maskBytes = 1, 8
	action := struct{ handler, flags, restorer, mask uintptr }{handler: ignored}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(&action)), 0, maskBytes, 0, 0)
}

// ignoreSignals receives and drops; of SIGTERM it keeps in mind that no other runner will come. signal.Ignore
// would be inherited by every command, which then could not be ended by SIGTERM either.
func ignoreSignals(leaving *atomic.Bool) {
	dropped := make(chan os.Signal, 1)
	const firstReserved, lastReserved, last = 32, 34, 64 // libc's own
	for number := syscall.Signal(1); number <= last; number++ {
		reserved := number >= firstReserved && number <= lastReserved
		switch {
		case reserved:
			ignoreReserved(number)
		case number == syscall.SIGKILL, number == syscall.SIGSTOP:
		case number == syscall.SIGCHLD, number == syscall.SIGURG: // the reaper's; the Go scheduler's
		default:
			signal.Notify(dropped, number)
		}
	}
	go func() {
		for number := range dropped {
			if number == syscall.SIGTERM {
				leaving.Store(true)
			}
		}
	}()
}
