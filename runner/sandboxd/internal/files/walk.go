package files

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Folders that hold what nobody wrote; search them by naming them as the path.
var skippedFolders = []string{".git", ".hg", ".svn", ".mypy_cache", ".tox", ".venv", "__pycache__", "node_modules"}

// Folders of the kernel: endless and without files of their own.
var kernelFolders = []string{"/proc", "/sys", "/dev"}

const maxFolderEntries = 20_000

// Why a search ended before everything was seen.
const (
	truncatedLimit  = "limit"
	truncatedTime   = "time"
	truncatedBytes  = "bytes"
	truncatedFolder = "folder_too_large"
)

// walk visits regular files below a folder in the order of their names.
type walk struct {
	deadline  time.Time
	truncated string
	visit     func(path string, entry os.DirEntry) bool // false ends the walk
}

// below returns false when the walk must end.
func (w *walk) below(folder string) bool {
	entries, more, err := readFolder(folder, maxFolderEntries)
	if err != nil {
		return true // not ours to read, or gone since
	}
	if more {
		w.truncated = truncatedFolder
	}
	for _, entry := range entries {
		if time.Now().After(w.deadline) {
			w.truncated = truncatedTime
			return false
		}
		path := filepath.Join(folder, entry.Name())
		switch {
		case entry.IsDir() && !isSkipped(path, entry.Name()):
			if !w.below(path) {
				return false
			}
		case entry.Type().IsRegular():
			if !w.visit(path, entry) {
				return false
			}
		}
	}
	return true
}

func isSkipped(path, name string) bool {
	return slices.Contains(skippedFolders, name) || slices.Contains(kernelFolders, path)
}
