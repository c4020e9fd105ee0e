package files

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// regular is an open regular file read by plain system calls: O_NONBLOCK keeps files of /proc that
// wait for events from blocking, and Go's poller must not wait for them either.
type regular struct {
	fd   int
	size int64
}

func openRegular(path string) (*regular, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(path, info.Mode()); err != nil {
		return nil, err
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := &regular{fd: fd, size: info.Size()}
	var opened syscall.Stat_t
	if err := syscall.Fstat(fd, &opened); err != nil || opened.Mode&syscall.S_IFMT != syscall.S_IFREG {
		file.Close() // replaced between the two looks
		return nil, checkRegular(path, os.ModeIrregular)
	}
	return file, nil
}

func (f *regular) Read(buffer []byte) (int, error) {
	for {
		count, err := syscall.Read(f.fd, buffer)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case count == 0 && len(buffer) > 0:
			return 0, io.EOF
		}
		return count, nil
	}
}

func (f *regular) seek(offset int64) error {
	_, err := syscall.Seek(f.fd, offset, io.SeekStart)
	return err
}

func (f *regular) Close() { _ = syscall.Close(f.fd) }
