package process

import (
	"bytes"
	"os"
	"strconv"
)

// Entry is one process as /proc shows it. Start is in clock ticks since boot.
type Entry struct {
	PID, Parent, Session int
	State                byte
	Start                uint64
}

func (e Entry) isDead() bool { return e.State == 'Z' || e.State == 'X' }

// Descendants lists the living processes below root, wherever they were adopted on the way.
// Processes put into the namespace from outside (kubectl exec) have parent 0 and are not listed.
func Descendants(root int) map[int]Entry {
	all := snapshot()
	children := map[int][]int{}
	for pid, entry := range all {
		children[entry.Parent] = append(children[entry.Parent], pid)
	}
	below := map[int]Entry{}
	queue := []int{root}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range children[parent] {
			queue = append(queue, pid)
			if entry := all[pid]; !entry.isDead() {
				below[pid] = entry
			}
		}
	}
	return below
}

func snapshot() map[int]Entry {
	entries := map[int]Entry{}
	folder, err := os.Open("/proc")
	if err != nil {
		return entries
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if entry, ok := parseStat(raw); ok {
			entry.PID = pid
			entries[pid] = entry
		}
	}
	return entries
}

// parseStat reads /proc/PID/stat. The name in brackets may hold anything, brackets too.
func parseStat(raw []byte) (Entry, bool) {
	const parent, session, start = 1, 3, 19
	after := bytes.LastIndexByte(raw, ')')
	if after < 0 {
		return Entry{}, false
	}
	fields := bytes.Fields(raw[after+1:])
	if len(fields) <= start {
		return Entry{}, false
	}
	entry := Entry{State: fields[0][0]}
	var err error
	if entry.Parent, err = strconv.Atoi(string(fields[parent])); err != nil {
		return Entry{}, false
	}
	if entry.Session, err = strconv.Atoi(string(fields[session])); err != nil {
		return Entry{}, false
	}
	entry.Start, err = strconv.ParseUint(string(fields[start]), 10, 64)
	return entry, err == nil
}

// tagOf returns the value of the tag variable in a process's first environment, "" when it has
// none or may not be read.
func tagOf(pid int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	for _, entry := range bytes.Split(raw, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(tagVariable+"=")); ok {
			return string(value)
		}
	}
	return ""
}
