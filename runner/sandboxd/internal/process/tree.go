package process

import (
	"os"
	"syscall"
	"time"
)

// tagVariable marks every process of one command, through forks and new sessions.
const tagVariable = "BATCHRUN_EXEC_ID"

const (
	killPatience = 2 * time.Second
	killRounds   = 10 // on a busy machine one look takes longer than the patience, and the killed need their turn to die
)

// Group is what one command started: its leader's session, its tag, and the time of its start.
type Group struct {
	Tag     string
	Session int
	Start   uint64
}

// owners says which tag each process belongs to: its own, else its parent's, else "".
func owners(below map[int]Entry) map[int]string {
	known := map[int]string{}
	var owner func(pid int) string
	owner = func(pid int) string {
		entry, ok := below[pid]
		if !ok {
			return ""
		}
		if tag, ok := known[pid]; ok {
			return tag
		}
		known[pid] = "" // a guard against a cycle made by reused numbers
		tag := tagOf(pid)
		if tag == "" {
			tag = owner(entry.Parent)
		}
		known[pid] = tag
		return tag
	}
	for pid := range below {
		owner(pid)
	}
	return known
}

// owned picks the processes that carry the group's tag or session, or descend from one that does.
func (g Group) owned(below map[int]Entry) []int {
	return g.pick(below, func(Entry, string) bool { return false })
}

// suspects adds what shed its tag, its session and its parents and is younger than the group:
// whatever cannot be shown to be somebody else's does not survive a timeout.
func (g Group) suspects(below map[int]Entry) []int {
	return g.pick(below, func(entry Entry, tag string) bool { return tag == "" && entry.Start >= g.Start })
}

func (g Group) pick(below map[int]Entry, also func(Entry, string) bool) []int {
	tags := owners(below)
	var pids []int
	for pid, entry := range below {
		if tags[pid] == g.Tag || entry.Session == g.Session || also(entry, tags[pid]) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// KillOwned ends what is known to be the group's.
func (g Group) KillOwned() { g.kill(g.owned) }

// KillHidden ends what is the group's and what may be, however it hid.
func (g Group) KillHidden() { g.kill(g.suspects) }

func (g Group) kill(choose func(map[int]Entry) []int) {
	self := os.Getpid()
	killUntilNone(func() []int {
		below := Descendants(self)
		pids := choose(below)
		if self == 1 && len(pids) == len(below) && len(pids) > 0 {
			_ = syscall.Kill(-1, syscall.SIGKILL) // at once for all: no fork outruns it
		}
		return pids
	})
}

// KillAll ends every process below this one.
func KillAll() {
	self := os.Getpid()
	killUntilNone(func() []int {
		if self == 1 {
			_ = syscall.Kill(-1, syscall.SIGKILL)
		}
		return keys(Descendants(self))
	})
}

func killUntilNone(find func() []int) {
	began := time.Now()
	for round := 0; round < killRounds || time.Since(began) < killPatience; round++ {
		pids := find()
		if len(pids) == 0 {
			return
		}
		// Stopped first: a process that cannot run cannot fork away from the list.
		signalAll(pids, syscall.SIGSTOP)
		signalAll(pids, syscall.SIGKILL)
		time.Sleep(time.Millisecond)
	}
}

func signalAll(pids []int, signal syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal)
	}
}

func keys(below map[int]Entry) []int {
	pids := make([]int, 0, len(below))
	for pid := range below {
		pids = append(pids, pid)
	}
	return pids
}
