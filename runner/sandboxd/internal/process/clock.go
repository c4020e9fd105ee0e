package process

import (
	"syscall"
	"time"
	"unsafe"
)

// Linux shows process start times in hundredths of a second on every architecture.
const ticksPerSecond = 100

// bootTicks is the present on the clock of Entry.Start.
func bootTicks() uint64 {
	const clockBoottime = 7
	var now syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		return 0
	}
	return uint64(time.Duration(now.Nano()) / (time.Second / ticksPerSecond))
}
