package files

import (
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"batchrun.dev/sandboxd/internal/wire"
)

const (
	maxListEntries = 10_000
	readDirBatch   = 1024
)

// PathArgs names one path.
type PathArgs struct {
	Path string `json:"path"`
	Cwd  string `json:"cwd"`
}

// StatResult describes a path, following links. ModifiedMS is in milliseconds since 1970.
type StatResult struct {
	Path       string `json:"path"`
	Kind       string `json:"kind"`
	SizeBytes  int64  `json:"size_bytes"`
	Mode       uint32 `json:"mode"`
	ModifiedMS int64  `json:"modified_ms"`
}

// Stat describes what a path leads to.
func (f Files) Stat(args PathArgs) (*StatResult, error) {
	path, err := f.resolve(args.Path, args.Cwd)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &StatResult{
		Path: path, Kind: kindOf(info.Mode()), SizeBytes: info.Size(),
		Mode: uint32(info.Mode().Perm()), ModifiedMS: info.ModTime().UnixMilli(),
	}, nil
}

// MakeDirectory makes a folder and its parents; one that exists already is fine.
func (f Files) MakeDirectory(args PathArgs) (*StatResult, error) {
	path, err := f.resolve(args.Path, args.Cwd)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return f.Stat(args)
}

// ListArgs asks for a folder's entries, Limit at most.
type ListArgs struct {
	Path  string `json:"path"`
	Cwd   string `json:"cwd"`
	Limit int    `json:"limit"`
}

// ListEntry is one name of a folder; a link is not followed.
type ListEntry struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	SizeBytes int64  `json:"size_bytes"`
}

// ListResult holds entries in the order of their names; Truncated says that there are more.
type ListResult struct {
	Path      string      `json:"path"`
	Entries   []ListEntry `json:"entries"`
	Truncated bool        `json:"truncated"`
}

// List names what a folder holds.
func (f Files) List(args ListArgs) (*ListResult, error) {
	if args.Limit < 1 || args.Limit > maxListEntries {
		return nil, wire.Errorf(wire.InvalidArgument, "limit must be from 1 to %d", maxListEntries)
	}
	path, err := f.resolve(args.Path, args.Cwd)
	if err != nil {
		return nil, err
	}
	entries, more, err := readFolder(path, maxListEntries)
	if err != nil {
		return nil, err
	}
	result := &ListResult{Path: path, Entries: []ListEntry{}, Truncated: more || len(entries) > args.Limit}
	for _, entry := range entries[:min(len(entries), args.Limit)] {
		info, err := entry.Info()
		if err != nil {
			continue // gone since
		}
		result.Entries = append(result.Entries, ListEntry{Name: entry.Name(), Kind: kindOf(info.Mode()), SizeBytes: info.Size()})
	}
	return result, nil
}

// readFolder returns at most limit entries, sorted, and whether the folder holds more. A folder of a
// million files is not read to its end.
func readFolder(path string, limit int) ([]os.DirEntry, bool, error) {
	// Not os.Open: it would wait for a writer where the path is a fifo.
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer folder.Close()
	var entries []os.DirEntry
	for len(entries) <= limit {
		batch, err := folder.ReadDir(readDirBatch)
		entries = append(entries, batch...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	more := len(entries) > limit
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries[:min(len(entries), limit)], more, nil
}
