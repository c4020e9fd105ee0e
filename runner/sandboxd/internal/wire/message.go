package wire

import (
	"bytes"
	"encoding/json"
)

// Hello is the first frame on a connection, from sandboxd to the runner.
type Hello struct {
	Type           string   `json:"type"`
	Protocol       int      `json:"protocol"`
	BootID         string   `json:"boot_id"`
	PID1           bool     `json:"pid1"`
	Cwd            string   `json:"cwd"`
	UID            int      `json:"uid"`
	GID            int      `json:"gid"`
	User           string   `json:"user"`
	Home           string   `json:"home"`
	Shell          string   `json:"shell"`
	RunnerImage    bool     `json:"runner_image"`
	Refused        string   `json:"refused"`
	IdentityTokens []string `json:"identity_tokens"`
	// The container's own, 0 where there is none.
	MemoryLimitBytes int64 `json:"memory_limit_bytes"`
}

// Request is one call of the runner. IDs are chosen by the runner and come back in the response.
type Request struct {
	ID   uint64          `json:"id"`
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args"`
}

// Response answers one request: exactly one of Result and Error is set.
type Response struct {
	ID     uint64 `json:"id"`
	Result any    `json:"result,omitempty"`
	Error  *Error `json:"error,omitempty"`
}

// Empty is the result of operations that have nothing to say.
type Empty struct{}

// Encode returns the JSON of a message. Bytes that are not UTF-8 become U+FFFD.
func Encode(message any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(message); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// Decode reads the arguments of a request; a field that the operation does not know is an error,
// since it would be a limit or an option that the runner believes in.
func Decode(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return Errorf(InvalidArgument, "%s", err)
	}
	return nil
}
