package facts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Without these a package manager, an editor or a pager waits for a person who is not there.
var nonInteractive = map[string]string{
	"DEBIAN_FRONTEND":               "noninteractive",
	"EDITOR":                        "true",
	"GIT_EDITOR":                    "true",
	"GIT_PAGER":                     "cat",
	"GIT_TERMINAL_PROMPT":           "0",
	"MANPAGER":                      "cat",
	"NEEDRESTART_MODE":              "a",
	"PAGER":                         "cat",
	"PIP_DISABLE_PIP_VERSION_CHECK": "1",
	"PIP_NO_INPUT":                  "1",
	"SYSTEMD_PAGER":                 "cat",
	"TERM":                          "dumb",
	"VISUAL":                        "true",
}

// BootVariable carries the boot id to every command.
const BootVariable = "BATCHRUN_BOOT_ID"

// Environment is what commands get: the image's own variables, made complete and non-interactive.
type Environment struct {
	values  map[string]string
	private string // the folder that was made for HOME or TMPDIR, "" when none was needed
}

// NewEnvironment builds the commands' environment from sandboxd's own. The scratch folders are tried
// in order when HOME or the temporary folder cannot be written; they may all be unusable.
func NewEnvironment(environ []string, bootID string, scratch []string) *Environment {
	values := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			values[name] = value
		}
	}
	if values["PATH"] == "" {
		values["PATH"] = DefaultPath
	}
	for name, value := range nonInteractive {
		values[name] = value
	}
	values[BootVariable] = bootID
	result := &Environment{values: values}
	result.ensureWritable(scratch)
	return result
}

// Get returns one variable, "" when unset.
func (e *Environment) Get(name string) string { return e.values[name] }

// With returns NAME=value entries in a stable order; extra wins over what is there.
func (e *Environment) With(extra map[string]string) []string {
	merged := make(map[string]string, len(e.values)+len(extra))
	for name, value := range e.values {
		merged[name] = value
	}
	for name, value := range extra {
		merged[name] = value
	}
	entries := make([]string, 0, len(merged))
	for name, value := range merged {
		entries = append(entries, name+"="+value)
	}
	slices.Sort(entries)
	return entries
}

func (e *Environment) ensureWritable(scratch []string) {
	temporary := e.values["TMPDIR"]
	if temporary == "" {
		temporary = "/tmp"
	}
	needHome, needTemporary := !isWritable(e.values["HOME"]), !isWritable(temporary)
	if !needHome && !needTemporary {
		return
	}
	e.private = privateFolder(append(scratch, temporary, "/var/tmp", "/dev/shm"), e.values[BootVariable])
	if e.private == "" {
		return
	}
	if needHome {
		e.values["HOME"] = makeFolder(e.private, "home")
	}
	if needTemporary {
		e.values["TMPDIR"] = makeFolder(e.private, "tmp")
	}
}

// Close removes what was made for this boot.
func (e *Environment) Close() {
	if e.private != "" {
		_ = os.RemoveAll(e.private)
	}
}

func privateFolder(parents []string, bootID string) string {
	for _, parent := range parents {
		path := filepath.Join(parent, ".batchrun-"+bootID[:min(8, len(bootID))])
		if isWritable(parent) && os.Mkdir(path, 0o700) == nil {
			return path
		}
	}
	return ""
}

func makeFolder(parent, name string) string {
	path := filepath.Join(parent, name)
	_ = os.Mkdir(path, 0o700)
	return path
}

func isWritable(folder string) bool {
	const writeAndSearch = 2 | 1
	info, err := os.Stat(folder)
	return folder != "" && err == nil && info.IsDir() && syscall.Access(folder, writeAndSearch) == nil
}
