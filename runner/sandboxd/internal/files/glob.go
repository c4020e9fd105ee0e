package files

import (
	"regexp"
	"strings"

	"batchrun.dev/sandboxd/internal/wire"
)

// nameMatcher tells whether a path below the searched folder is meant.
type nameMatcher func(relative string) bool

// compileGlob understands *, ?, [...], {a,b} and **. A pattern with a slash is matched against the
// path below the searched folder, one without against the last name. "" matches everything.
func compileGlob(pattern string) (nameMatcher, error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	expression, err := regexp.Compile("^" + globExpression(pattern) + "$")
	if err != nil {
		return nil, wire.Errorf(wire.InvalidArgument, "%q is no valid file pattern: %s", pattern, err)
	}
	if strings.Contains(pattern, "/") {
		return expression.MatchString, nil
	}
	return func(relative string) bool {
		return expression.MatchString(relative[strings.LastIndexByte(relative, '/')+1:])
	}, nil
}

func globExpression(pattern string) string {
	var out strings.Builder
	depth := 0
	for pattern != "" {
		taken := 1
		switch c := pattern[0]; {
		case strings.HasPrefix(pattern, "**/"):
			out.WriteString("(?:.*/)?")
			taken = 3
		case strings.HasPrefix(pattern, "**"):
			out.WriteString(".*")
			taken = 2
		case c == '*':
			out.WriteString("[^/]*")
		case c == '?':
			out.WriteString("[^/]")
		case c == '[' && strings.IndexByte(pattern, ']') > 1:
			taken = strings.IndexByte(pattern, ']') + 1
			out.WriteString(classExpression(pattern[1 : taken-1]))
		case c == '{':
			out.WriteString("(?:")
			depth++
		case c == '}' && depth > 0:
			out.WriteString(")")
			depth--
		case c == ',' && depth > 0:
			out.WriteString("|")
		case c == '\\' && len(pattern) > 1:
			out.WriteString(regexp.QuoteMeta(pattern[1:2]))
			taken = 2
		default:
			out.WriteString(literal(pattern, &taken))
		}
		pattern = pattern[taken:]
	}
	return out.String()
}

func classExpression(inside string) string {
	negated := ""
	if inside[0] == '!' || inside[0] == '^' {
		negated, inside = "^", inside[1:]
	}
	return "[" + negated + strings.NewReplacer(`\`, `\\`, `[`, `\[`).Replace(inside) + "]"
}

// literal quotes one whole character, so that a multi-byte one is not split.
func literal(pattern string, taken *int) string {
	for index := range pattern {
		if index > 0 {
			*taken = index
			return regexp.QuoteMeta(pattern[:index])
		}
	}
	*taken = len(pattern)
	return regexp.QuoteMeta(pattern)
}
