package process

import (
	"bytes"
	"math/rand"
	"strings"
	"syscall"
	"testing"
)

func TestOutputWithinTheLimitIsWhole(t *testing.T) {
	for size := 0; size <= 300; size++ {
		text := strings.Repeat("abc", 100)[:size]
		b := NewBounded(300)
		for _, char := range []byte(text) {
			_, _ = b.Write([]byte{char})
		}
		if got := b.Output(); got != (Output{Head: text}) {
			t.Fatalf("size %d: %+v", size, got)
		}
	}
}

func TestOutputAboveTheLimitKeepsItsEndsHoweverItIsWritten(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for round := 0; round < 200; round++ {
		limit := 256 + random.Intn(500)
		all := make([]byte, limit+1+random.Intn(5000))
		for index := range all {
			all[index] = 'a' + byte(random.Intn(26))
		}
		b := NewBounded(limit)
		for rest := all; len(rest) > 0; {
			size := min(len(rest), 1+random.Intn(2*limit))
			_, _ = b.Write(rest[:size])
			rest = rest[size:]
		}
		got := b.Output()
		headSize := limit * 6 / 10
		want := Output{
			Head: string(all[:headSize]), Tail: string(all[len(all)-(limit-headSize):]), OmittedBytes: int64(len(all) - limit),
		}
		if got != want {
			t.Fatalf("limit %d, %d bytes: %+v", limit, len(all), got)
		}
	}
}

func TestALogGivesWhatCameSinceAndCountsWhatIsGone(t *testing.T) {
	l := newLog(1000)
	_, _ = l.Write(bytes.Repeat([]byte("x"), 600))
	if output, next := l.since(100, 10_000); len(output.Head) != 500 || next != 600 || output.OmittedBytes != 0 {
		t.Errorf("%d bytes, next %d", len(output.Head), next)
	}
	_, _ = l.Write(bytes.Repeat([]byte("y"), 900))
	output, next := l.since(200, 10_000)
	if next != 1500 || output.OmittedBytes != 300 || output.Head != strings.Repeat("x", 100)+strings.Repeat("y", 900) {
		t.Errorf("next %d, omitted %d", next, output.OmittedBytes)
	}
	if output, next := l.since(9999, 1000); output != (Output{}) || next != 1500 {
		t.Errorf("beyond the end: %+v %d", output, next)
	}
}

func TestWhatAPipeHoldsIsReadAtOnceAndNothingIsWaitedFor(t *testing.T) {
	read, write, err := outputPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer syscall.Close(write)
	buffer := make([]byte, 64)

	if count := readNow(read, buffer); count != 0 {
		t.Errorf("an empty pipe gave %d bytes", count)
	}
	if _, err := syscall.Write(write, []byte("/work\n")); err != nil {
		t.Fatal(err)
	}
	if count := readNow(read, buffer); string(buffer[:count]) != "/work\n" {
		t.Errorf("read %q", buffer[:count])
	}
}
