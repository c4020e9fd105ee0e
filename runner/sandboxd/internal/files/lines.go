package files

import (
	"bytes"
	"io"

	"batchrun.dev/sandboxd/internal/text"
	"batchrun.dev/sandboxd/internal/wire"
)

const (
	chunkBytes = 64 << 10
	sniffBytes = 8 << 10
	// After what was wanted is there, this much more is read only to count the rest.
	countBytes = 64 << 20
	// More is not read to find the first wanted line.
	skipBytes = 1 << 30
)

// linePicker takes the wanted lines out of a stream of chunks.
type linePicker struct {
	args      ReadLinesArgs
	line      int64 // number of the line that the next byte belongs to
	open      bool  // that line has bytes already
	kept      []byte
	omitted   int64
	lines     []string
	cut       []CutLine
	budget    int
	full      bool // enough lines or bytes
	more      bool // something follows what was kept
	ended     bool // the whole file was seen
	binary    bool
	seen      int64
	afterFull int64
}

func newLinePicker(args ReadLinesArgs) *linePicker {
	return &linePicker{args: args, line: 1, budget: args.LimitBytes, lines: []string{}, cut: []CutLine{}}
}

func (p *linePicker) readAll(from io.Reader) error {
	buffer := make([]byte, chunkBytes)
	for {
		count, err := from.Read(buffer)
		p.take(buffer[:count])
		switch {
		case err == io.EOF:
			p.end()
			return nil
		case err != nil:
			return err
		case p.afterFull > countBytes:
			return nil
		case p.omitted > countBytes:
			p.keepLine()
			p.more = true
			return nil
		case p.line < p.args.FirstLine && p.seen > skipBytes:
			return wire.Errorf(wire.TooLarge, "line %d is more than %d bytes into the file", p.args.FirstLine, int64(skipBytes))
		}
	}
}

func (p *linePicker) end() {
	p.ended = true
	switch {
	case p.open && p.full:
		p.line++
	case p.open:
		p.endLine()
	}
}

func (p *linePicker) take(chunk []byte) {
	if p.seen < sniffBytes && bytes.IndexByte(chunk[:min(len(chunk), sniffBytes)], 0) >= 0 {
		p.binary = true
	}
	p.seen += int64(len(chunk))
	for len(chunk) > 0 {
		if p.full {
			p.countRest(chunk)
			return
		}
		end := bytes.IndexByte(chunk, '\n')
		if end < 0 {
			p.add(chunk)
			return
		}
		p.add(chunk[:end])
		p.endLine()
		chunk = chunk[end+1:]
	}
}

func (p *linePicker) countRest(chunk []byte) {
	p.more = true
	p.afterFull += int64(len(chunk))
	p.line += int64(bytes.Count(chunk, []byte("\n")))
	p.open = chunk[len(chunk)-1] != '\n'
}

func (p *linePicker) add(part []byte) {
	p.open = true
	if p.line < p.args.FirstLine {
		return
	}
	room := max(0, min(p.args.MaxLineBytes, p.budget)-len(p.kept))
	taken := min(room, len(part))
	p.kept = append(p.kept, part[:taken]...)
	p.omitted += int64(len(part) - taken)
}

func (p *linePicker) endLine() {
	if p.line >= p.args.FirstLine {
		p.keepLine()
	}
	p.line++
	p.open = false
}

func (p *linePicker) keepLine() {
	kept := p.kept
	if p.omitted > 0 {
		kept = text.TrimHead(kept)
		p.cut = append(p.cut, CutLine{Index: len(p.lines), OmittedBytes: p.omitted + int64(len(p.kept)-len(kept))})
	}
	p.lines = append(p.lines, string(kept))
	p.budget -= len(kept) + 1
	p.full = len(p.lines) >= p.args.LimitLines || p.budget <= 0
	p.kept, p.omitted = p.kept[:0], 0
}

func (p *linePicker) result() *ReadLinesResult {
	total := int64(-1)
	if p.ended {
		total = p.line - 1
	}
	return &ReadLinesResult{Lines: p.lines, Cut: p.cut, EOF: p.ended && !p.more, TotalLines: total, Binary: p.binary}
}
