package process

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheMemoryLimitIsReadFromBothKindsOfCgroups(t *testing.T) {
	const v1, v2 = "12:memory:/pods/a\n0::/\n", "0::/pods/a\n"
	for name, test := range map[string]struct {
		groups, file, content string
		want                  int64
	}{
		"v2 in a namespace of its own": {"0::/\n", "memory.max", "268435456\n", 268435456},
		"v2 seen from outside":         {v2, "pods/a/memory.max", "268435456\n", 268435456},
		"v2 without a limit":           {v2, "pods/a/memory.max", "max\n", 0},
		"v1 by the group's path":       {v1, "memory/pods/a/memory.limit_in_bytes", "1048576\n", 1048576},
		"v1 in a container":            {v1, "memory/memory.limit_in_bytes", "1048576\n", 1048576},
		"v1 without a limit":           {v1, "memory/memory.limit_in_bytes", "9223372036854771712\n", 0},
		"no cgroups at all":            {v1, "other", "1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "proc/self/cgroup"), test.groups)
			write(t, filepath.Join(root, "sys/fs/cgroup", test.file), test.content)
			if got := MemoryLimit(root); got != test.want {
				t.Errorf("%d, not %d", got, test.want)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
