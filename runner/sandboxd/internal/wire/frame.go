// Package wire is the protocol between sandboxd and the runner: frames, messages and error kinds.
// docs/protocol.md describes it; tests/golden/protocol holds the vectors that Go and Python both read.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version is the protocol version announced in hello. Both sides must have the same one.
const Version = 1

// MaxFrameBytes is the largest body of one frame.
const MaxFrameBytes = 16 << 20

const headerBytes = 4

// ErrFrame marks bytes that are no frame: a length of zero or above MaxFrameBytes, or a cut body.
var ErrFrame = errors.New("not a frame")

// ReadFrame returns the body of the next frame. It returns io.EOF only between frames,
// and an error that wraps ErrFrame when the peer broke the protocol.
func ReadFrame(r io.Reader) ([]byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: the header was cut", ErrFrame)
		}
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if size == 0 || size > MaxFrameBytes {
		return nil, fmt.Errorf("%w: a length of %d bytes", ErrFrame, size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: the body was cut", ErrFrame)
		}
		return nil, err
	}
	return body, nil
}

// AppendFrame appends the frame of body to buffer, so that it leaves in one write.
func AppendFrame(buffer, body []byte) ([]byte, error) {
	if len(body) == 0 || len(body) > MaxFrameBytes {
		return buffer, fmt.Errorf("%w: a length of %d bytes", ErrFrame, len(body))
	}
	buffer = binary.BigEndian.AppendUint32(buffer, uint32(len(body)))
	return append(buffer, body...), nil
}
