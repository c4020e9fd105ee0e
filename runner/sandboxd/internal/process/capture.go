package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	readBytes      = 64 << 10
	quietReadBytes = 4 << 10
	// More than a pipe can hold when its shell ends; a background printer must not hold the result up.
	drainBytes = 2 << 20
)

var readBuffers = sync.Pool{New: func() any { buffer := make([]byte, readBytes); return &buffer }}

// capture reads a command's output until its shell has ended (sealed), then goes on reading into
// afterwards: a server left in the background would die of a closed pipe.
type capture struct {
	file       *os.File
	output     io.Writer
	afterwards io.Writer
	sealed     chan struct{}
}

// newCapture returns the capture and the write end for the child.
func newCapture(output, afterwards io.Writer) (*capture, int, error) {
	file, writeEnd, err := outputPipe()
	if err != nil {
		return nil, -1, err
	}
	return &capture{file: file, output: output, afterwards: afterwards, sealed: make(chan struct{})}, writeEnd, nil
}

// outputPipe returns a read end for Go's poller and a blocking write end for the child.
func outputPipe() (*os.File, int, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, -1, os.NewSyscallError("pipe", err)
	}
	_ = syscall.SetNonblock(ends[0], true)
	return os.NewFile(uintptr(ends[0]), "output"), ends[1], nil
}

// inputPipe returns a write end for Go's poller and a blocking read end for the child.
func inputPipe() (*os.File, int, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, -1, os.NewSyscallError("pipe", err)
	}
	_ = syscall.SetNonblock(ends[1], true)
	return os.NewFile(uintptr(ends[1]), "input"), ends[0], nil
}

func (c *capture) run() {
	defer c.file.Close()
	buffer := readBuffers.Get().(*[]byte)
	ended := c.keep(*buffer)
	readBuffers.Put(buffer)
	close(c.sealed)
	if !ended {
		c.goOn()
	}
}

// keep returns true at end of file and false when the shell has ended before.
func (c *capture) keep(buffer []byte) bool {
	for {
		count, err := c.file.Read(buffer)
		_, _ = c.output.Write(buffer[:count])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.drain(buffer)
			return false
		}
		if err != nil {
			return true
		}
	}
}

// drain takes what the pipe holds now without waiting for more.
func (c *capture) drain(buffer []byte) {
	_ = c.file.SetReadDeadline(time.Time{})
	for drained := 0; drained < drainBytes; {
		count := readNow(c.file, buffer)
		if count == 0 {
			return
		}
		_, _ = c.output.Write(buffer[:count])
		drained += count
	}
}

// readNow takes what is there, at most a buffer full, and never waits. A deadline would not do: one that has passed
// before the read begins, as on a busy machine, hides what is there.
func readNow(file *os.File, buffer []byte) int {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0
	}
	count := 0
	_ = raw.Read(func(fd uintptr) bool {
		for {
			count, err = syscall.Read(int(fd), buffer)
			if err != syscall.EINTR {
				return true
			}
		}
	})
	return max(0, count)
}

func (c *capture) goOn() {
	buffer := make([]byte, quietReadBytes)
	for {
		count, err := c.file.Read(buffer)
		if err != nil {
			return
		}
		_, _ = c.afterwards.Write(buffer[:count])
	}
}

// finish seals the output: the shell has ended, so whatever it wrote is in the pipe.
func (c *capture) finish() {
	_ = c.file.SetReadDeadline(time.Unix(1, 0))
	<-c.sealed
}
