package serve

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"batchrun.dev/sandboxd/internal/facts"
	"batchrun.dev/sandboxd/internal/files"
	"batchrun.dev/sandboxd/internal/process"
	"batchrun.dev/sandboxd/internal/wire"
)

// Termination messages of all containers of a pod share 12 KiB.
const maxMessageBytes = 100

const reapPatience = 2 * time.Second

// Options of `sandboxd serve`. Once serves a single connection and never waits for another runner;
// it is implied when sandboxd is not PID 1.
type Options struct {
	Socket         string
	TerminationLog string
	Place          facts.Place
	Scratch        []string
	Once           bool
}

type server struct {
	options     Options
	environment *facts.Environment
	reaper      *process.Reaper
	runner      *process.Runner
	operations  map[string]operation
	hello       wire.Hello
	limited     sync.Once
	denied      bool // the session's goroutine alone looks at it
	activity    chan struct{}
	leaving     *atomic.Bool // the container was told to stop
}

// Run serves until the prompt is over and returns the exit code.
func Run(options Options) int {
	server, err := newServer(options)
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandboxd: %s\n", err)
		return ExitFailed
	}
	defer server.environment.Close()
	go releaseMemory(server.activity)
	for {
		conn, done, message := connect(options.Socket, server.options.Once, server.leaving)
		switch {
		case done:
			server.writeMessage(message)
			return ExitEnded
		case conn == nil:
			return ExitRunnerGone
		}
		session := &session{conn: conn, operations: server.operations, refused: server.hello.Refused, configure: server.configure, activity: server.activity}
		session.send(server.hello)
		verdict, end := session.run()
		if verdict == runnerGone && !session.used && !server.options.Once && !server.leaving.Load() {
			conn.Close()
			continue
		}
		return server.close(session, verdict, end)
	}
}

func newServer(options Options) (*server, error) {
	leaving := new(atomic.Bool)
	if err := guard(leaving); err != nil {
		return nil, err
	}
	options.Once = options.Once || os.Getpid() != 1
	environ := os.Environ()
	environment := facts.NewEnvironment(environ, facts.NewBootID(), options.Scratch)
	reaper := process.NewReaper()
	runner, err := process.NewRunner(reaper, environment)
	if err != nil {
		return nil, err
	}
	hello := facts.Hello(options.Place, environment, environ)
	hello.MemoryLimitBytes = process.MemoryLimit("/")
	return &server{
		options:     options,
		environment: environment,
		activity:    make(chan struct{}, 1),
		leaving:     leaving,
		reaper:      reaper,
		runner:      runner,
		operations:  operations(runner, process.NewBackground(runner), files.Files{Home: environment.Get("HOME")}),
		hello:       hello,
	}, nil
}

func (s *server) configure(args ConfigureArgs) error {
	if args.MaxProcesses < 0 {
		return wire.Errorf(wire.InvalidArgument, "max_processes must be 0 or more")
	}
	switch args.Network {
	case "", networkOpen:
	case networkDenied:
		if !s.denied {
			if err := s.reaper.DenyNetwork(); err != nil {
				return wire.Errorf(wire.Refused, "the network cannot be denied to commands here: %s", err)
			}
			s.denied = true
		}
	default:
		return wire.Errorf(wire.InvalidArgument, "network must be %s or %s", networkOpen, networkDenied)
	}
	if args.MaxProcesses > 0 {
		s.limited.Do(func() { go s.runner.LimitProcesses(args.MaxProcesses) })
	}
	return nil
}

// close ends all processes first: the last word in the termination log must be ours.
func (s *server) close(session *session, verdict verdict, end EndArgs) int {
	process.KillAll()
	s.reaper.AwaitNoChildren(reapPatience)
	switch verdict {
	case told:
		s.writeMessage(endMessage(end))
		_ = session.conn.SetWriteDeadline(time.Now().Add(reapPatience))
		session.answer(session.endID, wire.Empty{}, nil)
		session.conn.Close()
		return ExitEnded
	case broken:
		return ExitProtocol
	}
	if message, done := readDone(s.options.Socket); done {
		s.writeMessage(message)
		return ExitEnded
	}
	return ExitRunnerGone
}

func endMessage(end EndArgs) string {
	if end.Reason == "" {
		return end.Outcome
	}
	return end.Outcome + "/" + end.Reason
}

// writeMessage leaves the message where the kubelet looks, if anybody looks.
func (s *server) writeMessage(message string) {
	if s.options.TerminationLog == "" {
		return
	}
	message = strings.ToValidUTF8(message, string(utf8.RuneError))
	for len(message) > maxMessageBytes {
		_, size := utf8.DecodeLastRuneInString(message)
		message = message[:len(message)-size]
	}
	// A command may have left a fifo or a link there: neither blocks nor leads elsewhere.
	file, err := os.OpenFile(s.options.TerminationLog, os.O_WRONLY|os.O_TRUNC|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer file.Close()
	_, _ = file.WriteString(message)
}
