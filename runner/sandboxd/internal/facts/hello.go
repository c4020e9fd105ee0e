package facts

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/user"
	"strconv"

	"batchrun.dev/sandboxd/internal/wire"
)

// NewBootID returns 128 random bits in hex: one life of one sandbox.
func NewBootID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// Place says where to look; tests point it elsewhere.
type Place struct {
	Root              string
	RunnerImageMarker string
	SharedFiles       bool
}

// Hello gathers what the runner learns first.
func Hello(place Place, environment *Environment, environ []string) wire.Hello {
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "/"
	}
	tokens := IdentityTokens(place.Root, environ, place.SharedFiles)
	refused := ""
	if len(tokens) > 0 {
		refused = RefusedIdentityToken
	}
	return wire.Hello{
		Type:           "hello",
		Protocol:       wire.Version,
		BootID:         environment.Get(BootVariable),
		PID1:           os.Getpid() == 1,
		Cwd:            cwd,
		UID:            os.Getuid(),
		GID:            os.Getgid(),
		User:           userName(os.Getuid()),
		Home:           environment.Get("HOME"),
		Shell:          Shell(environment.Get("PATH")),
		RunnerImage:    exists(place.RunnerImageMarker),
		Refused:        refused,
		IdentityTokens: tokens,
	}
}

func userName(uid int) string {
	if found, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return found.Username
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
