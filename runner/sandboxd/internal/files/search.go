package files

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"batchrun.dev/sandboxd/internal/text"
	"batchrun.dev/sandboxd/internal/wire"
)

const (
	maxSearchResults  = 1000
	maxSearchFile     = 16 << 20
	maxSearchBytes    = 512 << 20
	maxSearchTime     = time.Minute
	maxMatchTextBytes = 500
)

// SearchArgs asks for text or names. Target "content" matches Pattern (RE2) in lines of files whose
// names match FileGlob; "files" matches Pattern as a glob. Mode "content" gives each line, "files"
// each file once, "count" the lines of each file. Offset results are skipped, Limit returned.
type SearchArgs struct {
	Path      string `json:"path"`
	Cwd       string `json:"cwd"`
	Target    string `json:"target"`
	Pattern   string `json:"pattern"`
	FileGlob  string `json:"file_glob"`
	Mode      string `json:"mode"`
	Offset    int    `json:"offset"`
	Limit     int    `json:"limit"`
	TimeoutMS int64  `json:"timeout_ms"`
}

// Match is one result: a path, with its line and text in mode "content" and Count in "count".
type Match struct {
	Path  string `json:"path"`
	Line  int    `json:"line"`
	Text  string `json:"text"`
	Count int    `json:"count"`
}

// SearchResult holds matches in the order of paths. Truncated is "" when all was seen, else "limit",
// "time", "bytes" or "folder_too_large". SkippedFiles counts binary and very large files.
type SearchResult struct {
	Matches      []Match `json:"matches"`
	Truncated    string  `json:"truncated"`
	SkippedFiles int     `json:"skipped_files"`
}

type search struct {
	args    SearchArgs
	root    string
	names   nameMatcher
	pattern *regexp.Regexp
	walk    walk
	skipped int // results below the offset
	bytes   int64
	result  SearchResult
}

// Search looks through a folder or a file within limits of results, bytes and time.
func (f Files) Search(args SearchArgs) (*SearchResult, error) {
	root, err := f.resolve(args.Path, args.Cwd)
	if err != nil {
		return nil, err
	}
	s, err := newSearch(args, root)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		s.walk.below(root)
	case s.pattern == nil:
		return nil, wire.Errorf(wire.NotADirectory, "%s is not a directory", root)
	default:
		if err := checkRegular(root, info.Mode()); err != nil {
			return nil, err
		}
		s.visitFile(root, info.Size())
	}
	if s.result.Truncated == "" {
		s.result.Truncated = s.walk.truncated
	}
	return &s.result, nil
}

func newSearch(args SearchArgs, root string) (*search, error) {
	timeout := time.Duration(args.TimeoutMS) * time.Millisecond
	if args.Limit < 1 || args.Limit > maxSearchResults || args.Offset < 0 || timeout <= 0 || timeout > maxSearchTime {
		return nil, wire.Errorf(wire.InvalidArgument, "limit must be from 1 to %d, offset from 0, timeout_ms from 1 to %d", maxSearchResults, maxSearchTime.Milliseconds())
	}
	s := &search{args: args, root: root, result: SearchResult{Matches: []Match{}}}
	s.walk = walk{deadline: time.Now().Add(timeout), visit: s.visitEntry}
	var err error
	switch {
	case args.Target == "files":
		s.names, err = compileGlob(args.Pattern)
	case args.Target != "content":
		return nil, wire.Errorf(wire.InvalidArgument, "target must be content or files")
	case args.Mode != "content" && args.Mode != "files" && args.Mode != "count":
		return nil, wire.Errorf(wire.InvalidArgument, "mode must be content, files or count")
	default:
		if s.pattern, err = regexp.Compile(args.Pattern); err != nil {
			return nil, wire.Errorf(wire.InvalidArgument, "%s", err)
		}
		s.names, err = compileGlob(args.FileGlob)
	}
	return s, err
}

func (s *search) visitEntry(path string, entry os.DirEntry) bool {
	relative, _ := filepath.Rel(s.root, path)
	if !s.names(relative) {
		return true
	}
	if s.pattern == nil {
		return s.add(Match{Path: s.shown(relative)})
	}
	info, err := entry.Info()
	if err != nil {
		return true
	}
	return s.visitFile(path, info.Size())
}

// shown gives a path as the caller would write it.
func (s *search) shown(relative string) string { return filepath.Join(s.args.Path, relative) }

// add returns false when the search must end.
func (s *search) add(match Match) bool {
	if s.skipped < s.args.Offset {
		s.skipped++
		return true
	}
	if len(s.result.Matches) >= s.args.Limit {
		s.result.Truncated = truncatedLimit
		return false
	}
	s.result.Matches = append(s.result.Matches, match)
	return true
}

func (s *search) visitFile(path string, size int64) bool {
	if s.bytes += size; s.bytes > maxSearchBytes {
		s.result.Truncated = truncatedBytes
		return false
	}
	if size > maxSearchFile {
		s.result.SkippedFiles++
		return true
	}
	file, err := openRegular(path)
	if err != nil {
		return true
	}
	defer file.Close()
	reader := bufio.NewReaderSize(io.LimitReader(file, maxSearchFile), chunkBytes)
	if start, _ := reader.Peek(sniffBytes); bytes.IndexByte(start, 0) >= 0 {
		s.result.SkippedFiles++
		return true
	}
	relative, _ := filepath.Rel(s.root, path)
	return s.searchLines(s.shown(relative), reader)
}

// searchLines reads pieces of at most chunkBytes: a longer line is matched piece by piece.
func (s *search) searchLines(shown string, reader *bufio.Reader) bool {
	count := 0
	lastLine := 0
	for line := 1; ; {
		piece, isPrefix, err := reader.ReadLine()
		if err != nil {
			break
		}
		if line != lastLine && s.pattern.Match(piece) {
			lastLine = line
			count++
			if s.args.Mode == "files" {
				return s.add(Match{Path: shown})
			}
			if s.args.Mode == "content" && !s.add(Match{Path: shown, Line: line, Text: matchText(s.pattern, piece)}) {
				return false
			}
		}
		if !isPrefix {
			line++
		}
		if time.Now().After(s.walk.deadline) {
			s.result.Truncated = truncatedTime
			return false
		}
	}
	if s.args.Mode == "count" && count > 0 {
		return s.add(Match{Path: shown, Count: count})
	}
	return true
}

// matchText shows a long line around its match.
func matchText(pattern *regexp.Regexp, line []byte) string {
	if len(line) <= maxMatchTextBytes {
		return string(line)
	}
	found := pattern.FindIndex(line)
	start := max(0, min(found[0]-maxMatchTextBytes/4, len(line)-maxMatchTextBytes))
	cut := line[start : start+maxMatchTextBytes]
	return "…" + string(text.TrimHead(text.TrimTail(cut))) + "…"
}
