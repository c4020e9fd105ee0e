package serve

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	firstPause   = 10 * time.Millisecond
	longestPause = 200 * time.Millisecond
	oncePatience = 30 * time.Second
	maxDoneBytes = 100
	doneName     = "done"
)

// connect waits for the runner's socket. It returns a nil connection when the prompt is over (with
// the message left for it), when the pod goes away and, with once, when no runner came in time.
func connect(socket string, once bool, leaving *atomic.Bool) (conn net.Conn, done bool, message string) {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if message, done := readDone(socket); done {
			return nil, true, message
		}
		if conn, err := net.Dial("unix", socket); err == nil {
			return conn, false, ""
		}
		if leaving.Load() || once && time.Since(began) > oncePatience {
			return nil, false, ""
		}
		time.Sleep(pause)
	}
}

// readDone looks for the file that says that this sandbox's prompt is over.
func readDone(socket string) (string, bool) {
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(socket), doneName))
	if err != nil {
		return "", false
	}
	return strings.ToValidUTF8(string(raw[:min(len(raw), maxDoneBytes)]), ""), true
}
