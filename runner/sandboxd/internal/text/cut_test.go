package text

import (
	"testing"
	"unicode/utf8"
)

func FuzzCutsFallBetweenCharacters(f *testing.F) {
	f.Add("aé🍸", 2)
	f.Add("🍸", 3)
	f.Fuzz(func(t *testing.T, s string, at int) {
		if !utf8.ValidString(s) || at < 0 || at > len(s) {
			t.Skip()
		}
		head, tail := TrimHead([]byte(s[:at])), TrimTail([]byte(s[at:]))
		if !utf8.Valid(head) || !utf8.Valid(tail) {
			t.Errorf("%q cut at %d: %q and %q", s, at, head, tail)
		}
		if lost := len(s) - len(head) - len(tail); lost >= utf8.UTFMax*2 {
			t.Errorf("%q cut at %d lost %d bytes", s, at, lost)
		}
	})
}

func TestBytesThatAreNoCharactersStay(t *testing.T) {
	raw := []byte{0x80, 0x80, 0x80, 0x80, 0x80}
	if got := TrimHead(raw); len(got) != 5 {
		t.Errorf("head %x", got)
	}
	if got := TrimTail(raw); len(got) != 5 {
		t.Errorf("tail %x", got)
	}
}
