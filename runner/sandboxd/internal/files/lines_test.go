package files

import (
	"bytes"
	"io"
	"math/rand"
	"strings"
	"testing"
	"testing/iotest"
)

// pick reads text in pieces of one byte and as a whole; both must agree.
func pick(t *testing.T, text string, args ReadLinesArgs) *ReadLinesResult {
	t.Helper()
	var results [2]*ReadLinesResult
	for index, reader := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		picker := newLinePicker(args)
		if err := picker.readAll(reader); err != nil {
			t.Fatal(err)
		}
		results[index] = picker.result()
	}
	if strings.Join(results[0].Lines, "\n") != strings.Join(results[1].Lines, "\n") || results[0].TotalLines != results[1].TotalLines || results[0].EOF != results[1].EOF {
		t.Fatalf("%q: %+v in one piece, %+v byte by byte", text, results[0], results[1])
	}
	return results[0]
}

func TestAnyWindowOfAnyFileIsRight(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for round := 0; round < 2000; round++ {
		var lines []string
		for range random.Intn(6) {
			lines = append(lines, strings.Repeat("x", random.Intn(5)))
		}
		text := strings.Join(lines, "\n")
		if len(lines) > 0 && (random.Intn(2) == 0 || lines[len(lines)-1] == "") {
			text += "\n"
		}
		first, limit := 1+random.Intn(6), 1+random.Intn(6)
		got := pick(t, text, ReadLinesArgs{FirstLine: int64(first), LimitLines: limit, LimitBytes: 1000, MaxLineBytes: 100})
		want := lines[min(len(lines), first-1):min(len(lines), first-1+limit)]
		if strings.Join(got.Lines, "\n") != strings.Join(want, "\n") || len(got.Lines) != len(want) {
			t.Fatalf("%q from %d, %d lines: %q", text, first, limit, got.Lines)
		}
		if got.TotalLines != int64(len(lines)) || got.EOF != (first-1+limit >= len(lines)) {
			t.Fatalf("%q from %d, %d lines: total %d, eof %v", text, first, limit, got.TotalLines, got.EOF)
		}
	}
}

func TestAnEndlessLineIsGivenUp(t *testing.T) {
	picker := newLinePicker(ReadLinesArgs{FirstLine: 1, LimitLines: 1, LimitBytes: 1000, MaxLineBytes: 10})
	if err := picker.readAll(endless{}); err != nil {
		t.Fatal(err)
	}
	got := picker.result()
	if len(got.Lines) != 1 || got.Lines[0] != "xxxxxxxxxx" || got.EOF || got.TotalLines != -1 {
		t.Errorf("%+v", got)
	}
}

type endless struct{}

func (endless) Read(buffer []byte) (int, error) {
	return copy(buffer, bytes.Repeat([]byte("x"), len(buffer))), nil
}
