// Package files reads, writes, lists and searches files without any program of the image.
package files

import (
	"os"
	"path/filepath"
	"strings"

	"batchrun.dev/sandboxd/internal/wire"
)

// Files works as the sandbox's user; Home is what a leading ~ means.
type Files struct {
	Home string
}

// resolve makes a path absolute: relative to cwd, or to Home with a leading ~.
func (f Files) resolve(path, cwd string) (string, error) {
	switch {
	case path == "":
		return "", wire.Errorf(wire.InvalidArgument, "the path is empty")
	case strings.ContainsRune(path, 0):
		return "", wire.Errorf(wire.InvalidArgument, "the path contains a NUL byte")
	case path == "~":
		return f.Home, nil
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(f.Home, path[2:]), nil
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case !filepath.IsAbs(cwd):
		return "", wire.Errorf(wire.InvalidArgument, "cwd must be absolute")
	}
	return filepath.Join(cwd, path), nil
}

// checkRegular refuses what has no content of its own: reading it could block or never end.
func checkRegular(path string, mode os.FileMode) error {
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return wire.Errorf(wire.IsDirectory, "%s is a directory", path)
	}
	return wire.Errorf(wire.NotAFile, "%s is a %s, not a regular file", path, kindOf(mode))
}

// kindOf names a file type as `stat` and `list` report it.
func kindOf(mode os.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&os.ModeSymlink != 0:
		return "symlink"
	case mode&os.ModeNamedPipe != 0:
		return "fifo"
	case mode&os.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
