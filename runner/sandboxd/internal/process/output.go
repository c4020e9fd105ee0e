package process

import "batchrun.dev/sandboxd/internal/text"

// Output is what is left of a stream: Head alone when nothing was cut, else its beginning and end.
type Output struct {
	Head         string `json:"head"`
	Tail         string `json:"tail"`
	OmittedBytes int64  `json:"omitted_bytes"`
}

// Bounded keeps the first 60 % and the last 40 % of a limit and counts what lies between.
// Its memory never exceeds the limit, whatever is written.
type Bounded struct {
	limit int
	total int64
	head  []byte
	tail  ring
}

// NewBounded keeps at most limit bytes.
func NewBounded(limit int) *Bounded {
	headLimit := limit * 6 / 10
	return &Bounded{limit: limit, head: make([]byte, 0, min(headLimit, 4096)), tail: ring{limit: limit - headLimit}}
}

func (b *Bounded) Write(data []byte) (int, error) {
	b.total += int64(len(data))
	room := b.limit - b.tail.limit - len(b.head)
	taken := min(room, len(data))
	b.head = append(b.head, data[:taken]...)
	b.tail.write(data[taken:])
	return len(data), nil
}

// Output returns the kept parts, cut at character boundaries.
func (b *Bounded) Output() Output {
	tail := b.tail.bytes()
	if b.total <= int64(b.limit) {
		return Output{Head: string(b.head) + string(tail)}
	}
	head := text.TrimHead(b.head)
	tail = text.TrimTail(tail)
	return Output{Head: string(head), Tail: string(tail), OmittedBytes: b.total - int64(len(head)) - int64(len(tail))}
}

// ring keeps the last limit bytes; it grows with what is written.
type ring struct {
	limit int
	data  []byte
	next  int
}

func (r *ring) write(data []byte) {
	if len(data) >= r.limit {
		r.data = append(r.data[:0], data[len(data)-r.limit:]...)
		r.next = 0
		return
	}
	if room := r.limit - len(r.data); room > 0 {
		taken := min(room, len(data))
		r.data = append(r.data, data[:taken]...)
		data = data[taken:]
	}
	for len(data) > 0 {
		copied := copy(r.data[r.next:], data)
		r.next = (r.next + copied) % r.limit
		data = data[copied:]
	}
}

func (r *ring) bytes() []byte {
	ordered := make([]byte, 0, len(r.data))
	ordered = append(ordered, r.data[r.next:]...)
	return append(ordered, r.data[:r.next]...)
}
