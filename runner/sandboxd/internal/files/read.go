package files

import (
	"encoding/base64"
	"io"

	"batchrun.dev/sandboxd/internal/wire"
)

const maxReadBytes = 8 << 20

// ReadBytesArgs asks for a piece of a file: LimitBytes from OffsetBytes on.
type ReadBytesArgs struct {
	Path        string `json:"path"`
	Cwd         string `json:"cwd"`
	OffsetBytes int64  `json:"offset_bytes"`
	LimitBytes  int    `json:"limit_bytes"`
}

// ReadBytesResult holds the piece in base64; EOF says that nothing follows it.
type ReadBytesResult struct {
	Path      string `json:"path"`
	Data      string `json:"data"`
	SizeBytes int64  `json:"size_bytes"`
	EOF       bool   `json:"eof"`
}

// ReadBytes returns a piece of a regular file.
func (f Files) ReadBytes(args ReadBytesArgs) (*ReadBytesResult, error) {
	if args.LimitBytes < 1 || args.LimitBytes > maxReadBytes || args.OffsetBytes < 0 {
		return nil, wire.Errorf(wire.InvalidArgument, "limit_bytes must be from 1 to %d, offset_bytes from 0", maxReadBytes)
	}
	path, err := f.resolve(args.Path, args.Cwd)
	if err != nil {
		return nil, err
	}
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.seek(args.OffsetBytes); err != nil {
		return nil, err
	}
	// One byte more than asked for tells whether the file goes on.
	data, err := io.ReadAll(io.LimitReader(file, int64(args.LimitBytes)+1))
	if err != nil {
		return nil, err
	}
	eof := len(data) <= args.LimitBytes
	data = data[:min(len(data), args.LimitBytes)]
	return &ReadBytesResult{Path: path, Data: base64.StdEncoding.EncodeToString(data), SizeBytes: file.size, EOF: eof}, nil
}

// ReadLinesArgs asks for LimitLines lines from line FirstLine (counted from 1) on, of which each
// is cut at MaxLineBytes and all together at LimitBytes.
type ReadLinesArgs struct {
	Path         string `json:"path"`
	Cwd          string `json:"cwd"`
	FirstLine    int64  `json:"first_line"`
	LimitLines   int    `json:"limit_lines"`
	LimitBytes   int    `json:"limit_bytes"`
	MaxLineBytes int    `json:"max_line_bytes"`
}

// CutLine says how many bytes of the line at Index of Lines were left out.
type CutLine struct {
	Index        int   `json:"index"`
	OmittedBytes int64 `json:"omitted_bytes"`
}

// ReadLinesResult holds lines without their ends. EOF says that no line follows; TotalLines is -1
// when counting them all would have read too much; Binary files have a NUL byte near their start.
type ReadLinesResult struct {
	Path       string    `json:"path"`
	Lines      []string  `json:"lines"`
	Cut        []CutLine `json:"cut"`
	EOF        bool      `json:"eof"`
	TotalLines int64     `json:"total_lines"`
	SizeBytes  int64     `json:"size_bytes"`
	Binary     bool      `json:"binary"`
}

// ReadLines returns lines of a regular file with memory that its limits bound, whatever the file holds.
func (f Files) ReadLines(args ReadLinesArgs) (*ReadLinesResult, error) {
	if args.FirstLine < 1 || args.LimitLines < 1 || args.MaxLineBytes < 1 || args.LimitBytes < 1 || args.LimitBytes > maxReadBytes {
		return nil, wire.Errorf(wire.InvalidArgument, "line numbers and limits start at 1, limit_bytes ends at %d", maxReadBytes)
	}
	path, err := f.resolve(args.Path, args.Cwd)
	if err != nil {
		return nil, err
	}
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	picker := newLinePicker(args)
	if err := picker.readAll(file); err != nil {
		return nil, err
	}
	result := picker.result()
	result.Path, result.SizeBytes = path, file.size
	return result, nil
}
