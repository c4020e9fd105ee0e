package facts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestIdentityTokensAreFoundThroughLinksAndNothingElseIs(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{"run/secrets/cloud/token", "run/secrets/app/password", "run/secrets/a/b/azure-identity-token"} {
		full := filepath.Join(root, path)
		if os.MkdirAll(filepath.Dir(full), 0o755) != nil || os.WriteFile(full, nil, 0o600) != nil {
			t.Fatal("cannot write")
		}
	}
	if os.MkdirAll(filepath.Join(root, "var"), 0o755) != nil || os.Symlink("../run", filepath.Join(root, "var/run")) != nil {
		t.Fatal("cannot link")
	}
	environ := []string{"AWS_SECRET_ACCESS_KEY=x", "AWS_ACCESS_KEY_ID=", "AWS_REGION=eu"}
	want := []string{
		"/run/secrets/a/b/azure-identity-token", "/run/secrets/cloud/token",
		"/var/run/secrets/a/b/azure-identity-token", "/var/run/secrets/cloud/token", "env:AWS_SECRET_ACCESS_KEY",
	}
	if got := IdentityTokens(root, environ, false); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := IdentityTokens(root, environ, true); !slices.Equal(got, want[4:]) {
		t.Errorf("with shared files: %v", got)
	}
}

func TestHomeAndTemporaryFolderAreMadeWhereTheImageHasNone(t *testing.T) {
	scratch := t.TempDir()
	environ := []string{"HOME=/none", "TMPDIR=/none/tmp", "PAGER=less"}
	e := NewEnvironment(environ, "0123456789abcdef", []string{"/none", scratch})
	for name, want := range map[string]string{
		"HOME":       scratch + "/.batchrun-01234567/home",
		"TMPDIR":     scratch + "/.batchrun-01234567/tmp",
		"PATH":       DefaultPath,
		"PAGER":      "cat",
		BootVariable: "0123456789abcdef",
	} {
		if got := e.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	e.Close()
	if left, _ := os.ReadDir(scratch); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAWritableHomeStays(t *testing.T) {
	home := t.TempDir()
	e := NewEnvironment([]string{"HOME=" + home}, "0123456789abcdef", nil)
	if e.Get("HOME") != home || e.Get("TMPDIR") != "" {
		t.Errorf("HOME %q, TMPDIR %q", e.Get("HOME"), e.Get("TMPDIR"))
	}
	got := e.With(map[string]string{"PAGER": "more"})
	if !slices.Contains(got, "PAGER=more") || !slices.IsSorted(got) {
		t.Errorf("%v", got)
	}
}

func TestAShellMustBeAProgram(t *testing.T) {
	folder := t.TempDir()
	if os.WriteFile(filepath.Join(folder, "bash"), nil, 0o644) != nil || os.WriteFile(filepath.Join(folder, "sh"), nil, 0o755) != nil {
		t.Fatal("cannot write")
	}
	shellFolders = folder
	defer func() { shellFolders = "/bin:/usr/bin:/usr/local/bin:/busybox" }()
	if got := Shell(""); got != filepath.Join(folder, "sh") {
		t.Errorf("%q", got)
	}
	shellFolders = filepath.Join(folder, "none")
	if got := Shell("relative:"); got != "" {
		t.Errorf("%q", got)
	}
}
