// Command sandboxd is the helper inside a prompt's container: it runs commands and reads and writes
// files for the runner. docs/protocol.md describes what it speaks.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"

	"batchrun.dev/sandboxd/internal/install"
	"batchrun.dev/sandboxd/internal/serve"
	"batchrun.dev/sandboxd/internal/wire"
)

const usage = `usage:
  sandboxd install DIR [--copy FILE]...   copy this program, and files, into DIR
  sandboxd serve --socket PATH [options]  serve the runner that listens on PATH
  sandboxd version                        print the protocol version and the platform
`

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		return fail(errors.New("a verb is missing"))
	}
	switch args[0] {
	case "install":
		return runInstall(args[1:])
	case "serve":
		return runServe(args[1:])
	case "version":
		fmt.Printf("sandboxd protocol %d %s/%s\n", wire.Version, runtime.GOOS, runtime.GOARCH)
		return 0
	}
	return fail(fmt.Errorf("there is no verb %q", args[0]))
}

// list collects a flag that may be given several times.
type list []string

func (l *list) String() string { return fmt.Sprint(*l) }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func runInstall(args []string) int {
	if len(args) == 0 {
		return fail(errors.New("install needs a folder"))
	}
	flags := flag.NewFlagSet("install", flag.ContinueOnError)
	var copies list
	flags.Var(&copies, "copy", "a file to put beside sandboxd; may be given several times")
	if err := flags.Parse(args[1:]); err != nil {
		return serve.ExitUsage
	}
	err := install.Files(args[0], copies)
	if err == nil {
		err = install.Self(args[0])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandboxd: %s\n", err)
		return serve.ExitFailed
	}
	return 0
}

func runServe(args []string) int {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	var options serve.Options
	var scratch list
	flags.StringVar(&options.Socket, "socket", "", "the runner's unix socket")
	flags.StringVar(&options.TerminationLog, "termination-log", "/dev/termination-log", "where the outcome is written, if the file exists; empty for nowhere")
	flags.StringVar(&options.Place.RunnerImageMarker, "runner-image-marker", "/usr/local/share/batchrun/runner-image", "a file that only the runner's image has")
	flags.StringVar(&options.Place.Root, "root", "/", "where identity tokens are looked for")
	flags.BoolVar(&options.Place.SharedFiles, "shared-files", false, "the file system is the user's own: token files in it say nothing")
	flags.Var(&scratch, "scratch", "a writable folder for HOME and TMPDIR where the image has none; may be given several times")
	flags.BoolVar(&options.Once, "once", false, "serve one connection only, do not wait for another runner")
	if err := flags.Parse(args); err != nil {
		return serve.ExitUsage
	}
	if options.Socket == "" || flags.NArg() > 0 {
		return fail(errors.New("serve needs --socket PATH and nothing else"))
	}
	options.Scratch = scratch
	return serve.Run(options)
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "sandboxd: %s\n%s", err, usage)
	return serve.ExitUsage
}
