package process

import "sync"

// log keeps the last bytes of a background process's output, addressed from its first byte on.
type log struct {
	mu     sync.Mutex
	total  int64
	recent ring
}

func newLog(limit int) *log { return &log{recent: ring{limit: limit}} }

func (l *log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total += int64(len(data))
	l.recent.write(data)
	return len(data), nil
}

// since returns what came after a byte offset, cut to limit, and where the next call begins.
func (l *log) since(from int64, limit int) (Output, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.recent.bytes()
	first := l.total - int64(len(kept))
	from = min(from, l.total)
	bounded := NewBounded(limit)
	_, _ = bounded.Write(kept[max(0, from-first):])
	output := bounded.Output()
	output.OmittedBytes += max(0, first-from)
	return output, l.total
}
