package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"batchrun.dev/sandboxd/internal/process"
	"batchrun.dev/sandboxd/internal/wire"
)

const (
	maxConcurrent   = 64
	killAllPatience = 30 * time.Second
)

const (
	networkOpen   = "Open"
	networkDenied = "Denied"
)

// ConfigureArgs sets limits for this boot, before the first command. MaxProcesses 0 means no limit, the first
// number counts. Network is Open ("" too) or Denied, which is never taken back.
type ConfigureArgs struct {
	MaxProcesses int    `json:"max_processes"`
	Network      string `json:"network"`
}

// EndArgs tells how the prompt ended. Outcome is required, Reason may be "".
type EndArgs struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
}

// session serves one connection.
type session struct {
	conn       net.Conn
	operations map[string]operation
	refused    string
	configure  func(ConfigureArgs) error
	activity   chan<- struct{}
	writeMu    sync.Mutex
	slots      chan struct{}
	used       bool
	endID      uint64
}

// verdict is why a session ended.
type verdict int

const (
	runnerGone verdict = iota
	told
	broken
)

// run reads requests until the runner ends the sandbox, goes away or breaks the protocol.
func (s *session) run() (verdict, EndArgs) {
	s.slots = make(chan struct{}, maxConcurrent)
	for {
		body, err := wire.ReadFrame(s.conn)
		if errors.Is(err, wire.ErrFrame) {
			fmt.Fprintf(os.Stderr, "sandboxd: %s\n", err)
			return broken, EndArgs{}
		}
		if err != nil {
			return runnerGone, EndArgs{}
		}
		var request wire.Request
		if err := json.Unmarshal(body, &request); err != nil {
			fmt.Fprintf(os.Stderr, "sandboxd: a frame that is no request: %s\n", err)
			return broken, EndArgs{}
		}
		if end, ok := s.handle(request); ok {
			return told, end
		}
	}
}

// handle answers one request, in the background unless it changes the session itself. It returns
// true for a valid `end`, which is answered only after all processes are gone.
func (s *session) handle(request wire.Request) (EndArgs, bool) {
	switch request.Op {
	case "end":
		var end EndArgs
		err := wire.Decode(request.Args, &end)
		if err == nil && end.Outcome == "" {
			err = wire.Errorf(wire.InvalidArgument, "end needs an outcome")
		}
		if err != nil {
			s.answer(request.ID, nil, err)
			return EndArgs{}, false
		}
		s.endID = request.ID
		return end, true
	case "ping":
		s.answer(request.ID, wire.Empty{}, nil)
	case "configure":
		result, err := typed(func(args ConfigureArgs) (wire.Empty, error) { return wire.Empty{}, s.configure(args) })(request.Args)
		s.answer(request.ID, result, err)
	default:
		s.dispatch(request)
	}
	return EndArgs{}, false
}

func (s *session) dispatch(request wire.Request) {
	run, ok := s.operations[request.Op]
	if request.Op == "kill_all" {
		run, ok = typed(s.killAll), true
	}
	switch {
	case !ok:
		s.answer(request.ID, nil, wire.Errorf(wire.UnknownOperation, "there is no operation %q", request.Op))
		return
	case s.refused != "":
		s.answer(request.ID, nil, wire.Errorf(wire.Refused, "this sandbox does not serve: %s", s.refused))
		return
	}
	s.used = true
	select {
	case s.slots <- struct{}{}:
	default:
		s.answer(request.ID, nil, wire.Errorf(wire.Limit, "%d requests are running already", maxConcurrent))
		return
	}
	go func() {
		defer func() { <-s.slots }()
		result, err := guarded(run, request.Args)
		s.answer(request.ID, result, err)
		select {
		case s.activity <- struct{}{}:
		default:
		}
	}()
}

// killAll ends every process. What was asked for before is over then, or it could start one more:
// requests take their slot in the order in which they come.
func (s *session) killAll(wire.Empty) (wire.Empty, error) {
	for deadline := time.Now().Add(killAllPatience); ; time.Sleep(time.Millisecond) {
		process.KillAll()
		if len(s.slots) == 1 && len(process.Descendants(os.Getpid())) == 0 {
			return wire.Empty{}, nil
		}
		if time.Now().After(deadline) {
			return wire.Empty{}, wire.Errorf(wire.Limit, "processes or requests of this sandbox did not end in %s", killAllPatience)
		}
	}
}

// guarded turns a bug in one operation into an error of that operation.
func guarded(run operation, args json.RawMessage) (result any, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			fmt.Fprintf(os.Stderr, "sandboxd: %v\n%s", caught, debug.Stack())
			result, err = nil, wire.Errorf(wire.Internal, "a fault in sandboxd: %v", caught)
		}
	}()
	return run(args)
}

func (s *session) answer(id uint64, result any, err error) {
	response := wire.Response{ID: id, Result: result}
	if err != nil {
		response = wire.Response{ID: id, Error: wire.AsError(err)}
	}
	s.send(response)
}

// send writes one frame. A broken connection is noticed by the reader.
func (s *session) send(message any) {
	body, err := wire.Encode(message)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandboxd: encode: %s\n", err)
		return
	}
	frame, err := wire.AppendFrame(make([]byte, 0, len(body)+4), body)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandboxd: %s\n", err)
		return
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	_, _ = s.conn.Write(frame)
}
