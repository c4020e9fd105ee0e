package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Kind is one of a closed set of reasons why an operation failed.
type Kind string

// The kinds. An operation that failed leaves the sandbox usable.
const (
	NotFound         Kind = "not_found"
	IsDirectory      Kind = "is_directory"
	NotADirectory    Kind = "not_a_directory"
	NotAFile         Kind = "not_a_file"
	PermissionDenied Kind = "permission_denied"
	TooLarge         Kind = "too_large"
	InvalidArgument  Kind = "invalid_argument"
	NoShell          Kind = "no_shell"
	Limit            Kind = "limit"
	DiskFull         Kind = "disk_full"
	Refused          Kind = "refused"
	UnknownOperation Kind = "unknown_operation"
	IO               Kind = "io"
	Internal         Kind = "internal"
)

// Kinds lists every kind, for the tests that compare it with the vectors.
var Kinds = []Kind{
	NotFound, IsDirectory, NotADirectory, NotAFile, PermissionDenied, TooLarge, InvalidArgument,
	NoShell, Limit, DiskFull, Refused, UnknownOperation, IO, Internal,
}

// Error is a failed operation as the runner sees it.
type Error struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return string(e.Kind) + ": " + e.Message }

// Errorf makes an Error of a kind.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

var errnoKinds = map[syscall.Errno]Kind{
	syscall.ENOENT:       NotFound,
	syscall.EISDIR:       IsDirectory,
	syscall.ENOTDIR:      NotADirectory,
	syscall.EACCES:       PermissionDenied,
	syscall.EPERM:        PermissionDenied,
	syscall.EROFS:        PermissionDenied,
	syscall.ENOSPC:       DiskFull,
	syscall.EDQUOT:       DiskFull,
	syscall.EINVAL:       InvalidArgument,
	syscall.ENAMETOOLONG: InvalidArgument,
	syscall.ELOOP:        InvalidArgument,
	syscall.E2BIG:        TooLarge,
	syscall.EFBIG:        TooLarge,
	syscall.EAGAIN:       Limit,
	syscall.ENOMEM:       Limit,
	syscall.EMFILE:       Limit,
	syscall.ENFILE:       Limit,
}

// AsError turns any error into one of the closed set. An unknown errno is IO, anything else Internal.
func AsError(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if kind, ok := errnoKinds[errno]; ok {
			return &Error{Kind: kind, Message: err.Error()}
		}
		return &Error{Kind: IO, Message: err.Error()}
	}
	if errors.Is(err, fs.ErrInvalid) {
		return &Error{Kind: InvalidArgument, Message: err.Error()}
	}
	return &Error{Kind: Internal, Message: err.Error()}
}
