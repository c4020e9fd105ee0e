package serve

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"batchrun.dev/sandboxd/internal/facts"
	"batchrun.dev/sandboxd/internal/files"
	"batchrun.dev/sandboxd/internal/process"
	"batchrun.dev/sandboxd/internal/vectors"
	"batchrun.dev/sandboxd/internal/wire"
)

type exchange struct {
	Name   string
	Files  map[string]string
	Op     string
	Args   json.RawMessage
	Result json.RawMessage
	Error  wire.Kind
}

func newOperations(t *testing.T) map[string]operation {
	t.Helper()
	environment := facts.NewEnvironment(environmentOfAnImage(), facts.NewBootID(), nil)
	t.Cleanup(environment.Close)
	runner, err := process.NewRunner(process.NewReaper(), environment)
	if err != nil {
		t.Fatal(err)
	}
	return operations(runner, process.NewBackground(runner), files.Files{Home: t.TempDir()})
}

// environmentOfAnImage keeps what the machine of the test has set (CI, an editor, a pager) out of the vectors.
func environmentOfAnImage() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
}

func TestExchangesEndAsTheirVectorsSay(t *testing.T) {
	var exchanges []exchange
	vectors.Load(t, "exchanges.json", &exchanges)
	operations := newOperations(t)
	for _, e := range exchanges {
		t.Run(e.Name, func(t *testing.T) {
			cwd := t.TempDir()
			for name, content := range e.Files {
				path := filepath.Join(cwd, name)
				if os.MkdirAll(filepath.Dir(path), 0o755) != nil || os.WriteFile(path, []byte(content), 0o644) != nil {
					t.Fatal("cannot write")
				}
			}
			fill := func(raw json.RawMessage) json.RawMessage {
				return json.RawMessage(strings.ReplaceAll(string(raw), "$CWD", cwd))
			}
			result, err := guarded(operations[e.Op], fill(e.Args))
			if e.Error != "" {
				if err == nil || wire.AsError(err).Kind != e.Error {
					t.Errorf("got %v %v, want %s", result, err, e.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := plain(t, result), plain(t, fill(e.Result)); !covers(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

func plain(t *testing.T, value any) any {
	t.Helper()
	body, err := wire.Encode(value)
	var decoded any
	if err != nil || json.Unmarshal(body, &decoded) != nil {
		t.Fatalf("%v: %v", value, err)
	}
	return decoded
}

// covers says whether got has everything that want speaks of.
func covers(got, want any) bool {
	wanted, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(got, want)
	}
	given, ok := got.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range wanted {
		if !covers(given[name], value) {
			return false
		}
	}
	return true
}

func TestOperationsAndExitCodesAreThoseOfTheOtherSide(t *testing.T) {
	var constants struct {
		Operations []string       `json:"operations"`
		ExitCodes  map[string]int `json:"exit_codes"`
	}
	vectors.Load(t, "constants.json", &constants)
	slices.Sort(constants.Operations)
	if got := slices.Sorted(maps.Keys(newOperations(t))); !slices.Equal(got, constants.Operations) {
		t.Errorf("operations differ: %v", got)
	}
	want := map[string]int{
		"ended": ExitEnded, "failed": ExitFailed, "runner_gone": ExitRunnerGone, "protocol": ExitProtocol, "usage": ExitUsage,
	}
	if !maps.Equal(constants.ExitCodes, want) {
		t.Errorf("exit codes differ: %v", constants.ExitCodes)
	}
}

func TestAFaultInOneOperationIsItsOwnError(t *testing.T) {
	broken := func(json.RawMessage) (any, error) { panic("boom") }
	if _, err := guarded(broken, nil); wire.AsError(err).Kind != wire.Internal {
		t.Errorf("got %v", err)
	}
}

func TestDoneFilesAreReadInPart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	if _, done := readDone(socket); done {
		t.Error("done without a file")
	}
	if os.WriteFile(filepath.Join(filepath.Dir(socket), doneName), []byte(strings.Repeat("é", 80)), 0o644) != nil {
		t.Fatal("cannot write")
	}
	message, done := readDone(socket)
	if !done || message != strings.Repeat("é", 50) {
		t.Errorf("%q %v", message, done)
	}
}
