// Package install copies sandboxd, and files beside it, into a folder that sandboxes mount.
package install

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Self copies the running program to dir/sandboxd with mode 0755.
func Self(dir string) error {
	return copyFile("/proc/self/exe", filepath.Join(dir, "sandboxd"), 0o755)
}

// Files copies each source to dir under its own base name with mode 0644.
func Files(dir string, sources []string) error {
	for _, source := range sources {
		if err := copyFile(source, filepath.Join(dir, filepath.Base(source)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copyFile never shows a half-written target: a sandbox may start the moment the name exists.
func copyFile(source, target string, mode os.FileMode) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	temporary, err := os.CreateTemp(filepath.Dir(target), ".install-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	if err := fill(temporary, from, mode); err != nil {
		temporary.Close()
		return fmt.Errorf("copy %s to %s: %w", source, target, err)
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), target); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(target))
}

func fill(to *os.File, from io.Reader, mode os.FileMode) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if err := to.Chmod(mode); err != nil {
		return err
	}
	return to.Sync()
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
