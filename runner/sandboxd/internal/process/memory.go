package process

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryEvents is the file that counts the kernel's out-of-memory kills in this container:
// `memory.events` of cgroup v2 or `memory.oom_control` of v1. "" when neither can be read.
func memoryEvents(root string) string {
	group := memoryGroup(filepath.Join(root, "proc/self/cgroup"))
	for _, path := range []string{
		filepath.Join(root, "sys/fs/cgroup", group, "memory.events"),
		filepath.Join(root, "sys/fs/cgroup/memory.events"),
		filepath.Join(root, "sys/fs/cgroup/memory", group, "memory.oom_control"),
		filepath.Join(root, "sys/fs/cgroup/memory/memory.oom_control"),
	} {
		if oomKills(path) >= 0 {
			return path
		}
	}
	return ""
}

// noLimit and above: v1 writes the largest number of pages where there is none.
const noLimit = 1 << 60

// MemoryLimit is the container's own limit in bytes, 0 where there is none or none can be read.
func MemoryLimit(root string) int64 {
	group := memoryGroup(filepath.Join(root, "proc/self/cgroup"))
	for _, path := range []string{
		filepath.Join(root, "sys/fs/cgroup", group, "memory.max"),
		filepath.Join(root, "sys/fs/cgroup/memory.max"),
		filepath.Join(root, "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"),
		filepath.Join(root, "sys/fs/cgroup/memory/memory.limit_in_bytes"),
	} {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
		if err != nil || limit >= noLimit {
			return 0
		}
		return limit
	}
	return 0
}

// memoryGroup reads the own group's path: the v1 memory line wins, else the v2 line.
func memoryGroup(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return "/"
	}
	defer file.Close()
	group := "/"
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		parts := strings.SplitN(scanner.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[1] == "memory" {
			return parts[2]
		}
		if parts[0] == "0" {
			group = parts[2]
		}
	}
	return group
}

// oomKills reads the counter, -1 when there is none.
func oomKills(path string) int64 {
	raw, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	for _, line := range bytes.Split(raw, []byte("\n")) {
		if value, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			count, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			if err != nil {
				return -1
			}
			return count
		}
	}
	return -1
}
