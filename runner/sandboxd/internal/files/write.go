package files

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"batchrun.dev/sandboxd/internal/wire"
)

const maxWriteBytes = 11 << 20

// WriteArgs is a whole file: Data in base64. Mode 0 keeps the old file's mode, or 0644 for a new one.
type WriteArgs struct {
	Path string `json:"path"`
	Cwd  string `json:"cwd"`
	Data string `json:"data"`
	Mode uint32 `json:"mode"`
}

// WriteResult says where the bytes are now.
type WriteResult struct {
	Path         string `json:"path"`
	WrittenBytes int    `json:"written_bytes"`
	Created      bool   `json:"created"`
}

// Write replaces a file's content as a whole: readers see the old or the new one. Folders are made.
func (f Files) Write(args WriteArgs) (*WriteResult, error) {
	data, err := base64.StdEncoding.DecodeString(args.Data)
	if err != nil {
		return nil, wire.Errorf(wire.InvalidArgument, "data is not base64: %s", err)
	}
	if len(data) > maxWriteBytes {
		return nil, wire.Errorf(wire.TooLarge, "%d bytes are more than %d", len(data), maxWriteBytes)
	}
	path, err := f.resolve(args.Path, args.Cwd)
	if err != nil {
		return nil, err
	}
	target, old, err := writeTarget(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return nil, err
	}
	mode := os.FileMode(args.Mode).Perm()
	if err := replace(target, data, mode, old); err != nil {
		return nil, err
	}
	return &WriteResult{Path: path, WrittenBytes: len(data), Created: old == nil}, nil
}

// writeTarget follows links, so that a link stays one, and refuses what is no regular file.
func writeTarget(path string) (string, os.FileInfo, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return danglingTarget(path), nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	info, err := os.Stat(target)
	if err != nil {
		return "", nil, err
	}
	return target, info, checkRegular(path, info.Mode())
}

// danglingTarget is where a link without a target points to; any other path is its own.
func danglingTarget(path string) string {
	link, err := os.Readlink(path)
	if err != nil {
		return path
	}
	if filepath.IsAbs(link) {
		return link
	}
	return filepath.Join(filepath.Dir(path), link)
}

func replace(target string, data []byte, mode os.FileMode, old os.FileInfo) error {
	err := renameOver(target, data, mode, old)
	folderRefuses := errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EROFS)
	if old != nil && (folderRefuses || errors.Is(err, syscall.EBUSY)) {
		// The folder cannot be written or the file is a mount; the file itself may be writable all the same.
		return writeInPlace(target, data)
	}
	return err
}

func renameOver(target string, data []byte, mode os.FileMode, old os.FileInfo) error {
	temporary, err := os.CreateTemp(filepath.Dir(target), ".batchrun-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(data)
	if err == nil {
		err = adopt(temporary, mode, old)
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), target)
}

// adopt gives the new file the wanted mode, else the old file's mode and owner.
func adopt(file *os.File, mode os.FileMode, old os.FileInfo) error {
	const newFile = 0o644
	if old != nil {
		if owner, ok := old.Sys().(*syscall.Stat_t); ok {
			_ = file.Chown(int(owner.Uid), int(owner.Gid)) // only root may
		}
		if mode == 0 {
			mode = old.Mode().Perm() | old.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeSticky)
		}
	}
	if mode == 0 {
		mode = newFile
	}
	return file.Chmod(mode)
}

func writeInPlace(target string, data []byte) error {
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}
