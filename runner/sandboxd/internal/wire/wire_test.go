package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"syscall"
	"testing"

	"batchrun.dev/sandboxd/internal/vectors"
)

type frameCase struct {
	Name, Hex string
	Message   json.RawMessage
}

type frameCases struct{ Valid, Invalid []frameCase }

func TestFramesAreWrittenAndReadAsRecorded(t *testing.T) {
	var cases frameCases
	vectors.Load(t, "frames.json", &cases)
	for _, c := range cases.Valid {
		t.Run(c.Name, func(t *testing.T) {
			recorded, _ := hex.DecodeString(c.Hex)
			body, err := ReadFrame(bytes.NewReader(recorded))
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if json.Unmarshal(body, &got) != nil || json.Unmarshal(c.Message, &want) != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("read %s, want %s", body, c.Message)
			}
			if frame, err := AppendFrame(nil, body); err != nil || !bytes.Equal(frame, recorded) {
				t.Errorf("wrote %x, want %x (%v)", frame, recorded, err)
			}
		})
	}
}

func TestWhatIsNoFrameIsRefused(t *testing.T) {
	var cases frameCases
	vectors.Load(t, "frames.json", &cases)
	for _, c := range cases.Invalid {
		raw, _ := hex.DecodeString(c.Hex)
		if _, err := ReadFrame(bytes.NewReader(raw)); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: got %v", c.Name, err)
		}
	}
}

func TestNothingAfterAFrameIsTheEnd(t *testing.T) {
	if _, err := ReadFrame(bytes.NewReader(nil)); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

func TestConstantsAreThoseOfTheOtherSide(t *testing.T) {
	var constants struct {
		ProtocolVersion int    `json:"protocol_version"`
		MaxFrameBytes   int    `json:"max_frame_bytes"`
		ErrorKinds      []Kind `json:"error_kinds"`
	}
	vectors.Load(t, "constants.json", &constants)
	if constants.ProtocolVersion != Version || constants.MaxFrameBytes != MaxFrameBytes {
		t.Errorf("constants differ: %+v", constants)
	}
	if !reflect.DeepEqual(constants.ErrorKinds, Kinds) {
		t.Errorf("error kinds differ: %v", Kinds)
	}
}

func TestHelloHasTheRecordedFields(t *testing.T) {
	var recorded, ours map[string]any
	vectors.Load(t, "hello.json", &recorded)
	body, err := Encode(Hello{IdentityTokens: []string{}})
	if err != nil || json.Unmarshal(body, &ours) != nil {
		t.Fatal(err)
	}
	if len(recorded) != len(ours) {
		t.Errorf("%d fields, recorded %d", len(ours), len(recorded))
	}
	for name := range recorded {
		if _, ok := ours[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestErrorsFallIntoTheClosedSet(t *testing.T) {
	cases := map[Kind]error{
		NotFound:         &os.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT},
		DiskFull:         fmt.Errorf("write: %w", syscall.ENOSPC),
		PermissionDenied: syscall.EROFS,
		IO:               syscall.EIO,
		Internal:         errors.New("anything"),
		NoShell:          fmt.Errorf("wrapped: %w", Errorf(NoShell, "none")),
	}
	for want, err := range cases {
		if got := AsError(err).Kind; got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestArgumentsThatAreNotKnownAreRefused(t *testing.T) {
	var args struct {
		A int `json:"a"`
	}
	for _, raw := range []string{`{"a":1,"b":2}`, `{"a":"x"}`, `[]`} {
		if err := Decode(json.RawMessage(raw), &args); AsError(err).Kind != InvalidArgument {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestBytesThatAreNoUTF8AreReplaced(t *testing.T) {
	body, err := Encode(map[string]string{"a": "\xff<é"})
	if err != nil || string(body) != `{"a":"\ufffd<é"}` {
		t.Errorf("%s %v", body, err)
	}
}
