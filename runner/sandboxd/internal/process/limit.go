package process

import (
	"cmp"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	limitInterval = 20 * time.Millisecond // a bomb makes hundreds of processes in a tenth of a second
	limitRounds   = 50
)

// LimitProcesses counts while anything runs and kills the youngest processes above max; it never
// returns. pids.max is the pod's and RLIMIT_NPROC does not bind root, so counting is what is left.
func (r *Runner) LimitProcesses(maxProcesses int) {
	for range r.started {
		for r.reaper.HasChildren() {
			// A bomb forks while we count: repeat at once while it is over the limit.
			for round := 0; round < limitRounds && r.killYoungest(maxProcesses); round++ {
			}
			time.Sleep(limitInterval)
		}
	}
}

func (r *Runner) killYoungest(maxProcesses int) bool {
	self := os.Getpid()
	below := Descendants(self)
	if len(below) <= maxProcesses {
		return false
	}
	if self == 1 {
		// Frozen at once, all of them: on a busy machine a bomb forks faster than it can be counted.
		_ = syscall.Kill(-1, syscall.SIGSTOP)
		defer syscall.Kill(-1, syscall.SIGCONT)
		below = Descendants(self)
	}
	pids := keys(below)
	slices.SortFunc(pids, func(a, b int) int {
		return cmp.Or(cmp.Compare(below[a].Start, below[b].Start), cmp.Compare(a, b))
	})
	above := pids[min(maxProcesses, len(pids)):]
	signalAll(above, syscall.SIGSTOP)
	signalAll(above, syscall.SIGKILL)
	r.limitKills.Add(int64(len(above)))
	return true
}
