package process

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestStatIsReadWhateverTheNameHolds(t *testing.T) {
	entry, ok := parseStat([]byte("42 (a) b) S 7 42 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 678"))
	if want := (Entry{Parent: 7, Session: 9, State: 'S', Start: 12345}); !ok || entry != want {
		t.Errorf("%+v %v", entry, ok)
	}
	for _, bad := range []string{"", "1", "1 (x)", "1 (x) S 1", "1 (x) S a 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestThisProcessIsNotItsOwnDescendant(t *testing.T) {
	if _, ok := Descendants(os.Getpid())[os.Getpid()]; ok {
		t.Error("it is")
	}
	if _, ok := Descendants(os.Getppid())[os.Getpid()]; !ok {
		t.Error("its parent does not have it")
	}
}

func TestAGroupTakesItsOwnAndTheYoungUnclaimed(t *testing.T) {
	group := Group{Tag: "t", Session: 10, Start: 100}
	below := map[int]Entry{
		1 << 28: {Parent: 1, Session: 10, Start: 50},           // its session
		2 << 28: {Parent: 1, Session: 2 << 28, Start: 99},      // older, unclaimed
		3 << 28: {Parent: 1, Session: 3 << 28, Start: 100},     // young, unclaimed
		4 << 28: {Parent: 1 << 28, Session: 4 << 28, Start: 1}, // a child of the first: unclaimed, too old by its clock
	}
	sorted := func(pids []int) []int { slices.Sort(pids); return pids }
	if got := sorted(group.owned(below)); !slices.Equal(got, []int{1 << 28}) {
		t.Errorf("owned: %v", got)
	}
	if got := sorted(group.suspects(below)); !slices.Equal(got, []int{1 << 28, 3 << 28}) {
		t.Errorf("suspects: %v", got)
	}
}

func TestMemoryKillsAreCountedInBothKindsOfCgroups(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"v2 in a container": {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "low 0\noom 3\noom_kill 2\n"},
		"v2 on a host":      {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.events": "oom_kill 2\n"},
		"v1 in a container": {
			"proc/self/cgroup":                        "9:memory:/kubepods/x\n0::/\n",
			"sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		},
	} {
		root := t.TempDir()
		for path, content := range files {
			full := filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := oomKills(memoryEvents(root)); got != 2 {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := memoryEvents(t.TempDir()); got != "" {
		t.Errorf("found %s where there is nothing", got)
	}
}
