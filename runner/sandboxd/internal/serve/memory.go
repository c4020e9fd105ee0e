package serve

import (
	"runtime/debug"
	"time"
)

const (
	gcPercent = 50
	quietTime = time.Second
)

// releaseMemory gives memory back once requests pause: a pod holds a hundred idle sandboxes.
func releaseMemory(activity <-chan struct{}) {
	debug.SetGCPercent(gcPercent)
	for range activity {
		for quiet := false; !quiet; {
			select {
			case <-activity:
			case <-time.After(quietTime):
				quiet = true
			}
		}
		debug.FreeOSMemory()
	}
}
