package files

import "testing"

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"", "any/thing", true},
		{"*.py", "a.py", true},
		{"*.py", "deep/down/a.py", true},
		{"*.py", "a.pyc", false},
		{"*.{ts,tsx}", "x/a.tsx", true},
		{"*.{ts,tsx}", "a.js", false},
		{"src/*.py", "src/a.py", true},
		{"src/*.py", "src/b/a.py", false},
		{"src/**/*.py", "src/a.py", true},
		{"src/**/*.py", "src/b/c/a.py", true},
		{"**/test_*", "test_a", true},
		{"src/**", "src/a/b", true},
		{"file?.txt", "file1.txt", true},
		{"file?.txt", "file12.txt", false},
		{"[a-c]*", "b1", true},
		{"[!a-c]*", "b1", false},
		{"[", "[", true},
		{"a+b(1).txt", "a+b(1).txt", true},
		{`\*`, "*", true},
		{"é*", "été", true},
		{"*{", "a{", false},
	} {
		matches, err := compileGlob(c.pattern)
		if c.pattern == "*{" {
			if err == nil {
				t.Errorf("%q is a pattern", c.pattern)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		if got := matches(c.path); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.path, got)
		}
	}
}
