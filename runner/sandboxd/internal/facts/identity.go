// Package facts finds out what kind of place sandboxd runs in: user, shell, writable folders,
// identity tokens that must not be there.
package facts

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// RefusedIdentityToken is the reason in hello when a cloud or cluster identity is visible.
const RefusedIdentityToken = "IdentityTokenPresent"

// The webhooks of the clouds put these into every container they are not told to skip.
var identityVariables = []string{
	"AWS_ACCESS_KEY_ID",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	"AWS_CONTAINER_CREDENTIALS_FULL_URI",
	"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
	"AWS_SECRET_ACCESS_KEY",
	"AWS_SESSION_TOKEN",
	"AWS_WEB_IDENTITY_TOKEN_FILE",
	"AZURE_CLIENT_SECRET",
	"AZURE_FEDERATED_TOKEN_FILE",
	"GOOGLE_APPLICATION_CREDENTIALS",
}

var secretFolders = []string{"/var/run/secrets", "/run/secrets"}

const (
	maxSecretDepth   = 6
	maxSecretEntries = 10_000
)

// IdentityTokens lists what would let a command act as somebody: `env:NAME` for variables, paths
// for token files below root. Files are left out when sharedFiles says that root is the user's own
// machine, where the file system proves nothing about the sandbox.
func IdentityTokens(root string, environ []string, sharedFiles bool) []string {
	found := []string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value != "" && slices.Contains(identityVariables, name) {
			found = append(found, "env:"+name)
		}
	}
	if !sharedFiles {
		for _, folder := range secretFolders {
			found = append(found, tokenFiles(root, folder)...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func tokenFiles(root, folder string) []string {
	// Resolved first: WalkDir does not enter a start folder that is itself a link (/var/run often is).
	start, err := filepath.EvalSymlinks(filepath.Join(root, folder))
	if err != nil {
		return nil
	}
	var found []string
	seen := 0
	_ = filepath.WalkDir(start, func(path string, entry fs.DirEntry, err error) error {
		seen++
		if seen > maxSecretEntries {
			return filepath.SkipAll
		}
		if err != nil {
			return nil
		}
		relative, _ := filepath.Rel(start, path)
		if entry.IsDir() {
			if strings.Count(relative, string(os.PathSeparator)) >= maxSecretDepth {
				return filepath.SkipDir
			}
			return nil
		}
		if isTokenName(entry.Name()) {
			found = append(found, filepath.Join(folder, relative))
		}
		return nil
	})
	return found
}

func isTokenName(name string) bool {
	return name == "token" || strings.HasSuffix(name, "-token") || strings.HasSuffix(name, ".token")
}
