package scan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
)

// maxFiles bounds what a pattern may stand for: "{0..999999999}" is a slip of the finger.
const maxFiles = 1 << 20

// expand is what a source stands for: itself where there is such a file, else what its braces and then its
// wildcards give. named is false where the files were looked for, not listed by name.
func expand(source string) (files []string, named bool, err error) {
	_, err = os.Lstat(source)
	if err != nil {
		if said := remote.Mistaken(source); said != "" {
			return nil, false, catalog.NewError(fault.KindArgument, "", "%s", said)
		}
	}
	// A file may be called a[1].tar.
	if err == nil || !strings.ContainsAny(source, "{*?[") {
		return []string{source}, true, nil
	}
	texts, err := braces(source)
	if err != nil {
		return nil, false, catalog.NewError(fault.KindArgument, source, "%v", err)
	}
	named = true
	for _, text := range texts {
		if _, err := os.Lstat(text); err == nil || !strings.ContainsAny(text, "*?[") {
			files = append(files, text)
			continue
		}
		named = false
		found, err := filepath.Glob(text)
		// Glob has no error but ErrBadPattern. Folders that cannot be read give nothing, as in a shell.
		if err != nil {
			return nil, false, catalog.NewError(fault.KindArgument, text, "the pattern is not understood: %v", err)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, false, catalog.IOError(source, "no file has such a name", unix.ENOENT)
	}
	return files, named, nil
}

// braces expands {a,b} and {000..146} as a shell does, which is what WebDataset's URLs are written in. A
// brace that holds neither stands for itself.
// It calls itself for what stands behind a pair and for what stands inside of one. How many texts there are is bounded at each
// step, because "{0..9}" written seven times stands for ten million.
func braces(text string) ([]string, error) {
	open, end := -1, -1
	depth := 0
	for i := 0; i < len(text) && end < 0; i++ {
		switch text[i] {
		case '{':
			if depth++; depth == 1 {
				open = i
			}
		case '}':
			if depth > 0 {
				if depth--; depth == 0 {
					end = i
				}
			}
		}
	}
	if end < 0 {
		return []string{text}, nil
	}
	// Each text of the first pair is followed by each of what stands behind it.
	choices, err := alternatives(text[open+1 : end])
	if err != nil {
		return nil, err
	}
	if choices == nil {
		choices = []string{text[open : end+1]}
	}
	rest, err := braces(text[end+1:])
	if err != nil {
		return nil, err
	}
	// Divided, not multiplied: before anything of that number is made.
	if len(rest) > maxFiles/len(choices) {
		return nil, tooMany(text)
	}
	all := make([]string, 0, len(choices)*len(rest))
	for _, choice := range choices {
		for _, r := range rest {
			all = append(all, text[:open]+choice+r)
		}
	}
	return all, nil
}

// tooMany does not say how many: whoever mistyped a digit needs the text, and counting would go through them all.
func tooMany(text string) error {
	return fmt.Errorf("the braces of %.80q stand for more than %d files", text, maxFiles)
}

// alternatives are those of one pair of braces, nil where it holds none.
// A list may hold further braces, as {a,{0..3}} does, so each of its texts is expanded again.
func alternatives(inside string) ([]string, error) {
	if from, to, ok := strings.Cut(inside, ".."); ok && !strings.ContainsAny(inside, ",{") {
		return numbers(inside, from, to)
	}
	var parts []string
	depth, begin := 0, 0
	for i := range len(inside) {
		switch inside[i] {
		case '{':
			depth++
		case '}':
			depth--
		// A comma inside of an inner pair divides that pair.
		case ',':
			if depth == 0 {
				parts, begin = append(parts, inside[begin:i]), i+1
			}
		}
	}
	if parts == nil {
		return nil, nil
	}
	var all []string
	for _, part := range append(parts, inside[begin:]) {
		found, err := braces(part)
		if err != nil {
			return nil, err
		}
		if all = append(all, found...); len(all) > maxFiles {
			return nil, tooMany(inside)
		}
	}
	return all, nil
}

// numbers are those of a range, as bash has them ("Brace Expansion"). A leading zero on either side pads all to the longer
// one's width.
func numbers(inside, from, to string) ([]string, error) {
	// 62 bits, so that the difference of two is an int64. A range of letters, or with a step, stands for itself.
	first, err := strconv.ParseUint(from, 10, 62)
	last, wrong := strconv.ParseUint(to, 10, 62)
	if err != nil || wrong != nil {
		return nil, nil
	}
	width := 0
	if len(from) > 1 && from[0] == '0' || len(to) > 1 && to[0] == '0' {
		width = max(len(from), len(to))
	}
	step := int64(1)
	if last < first {
		step = -1
	}
	count := (int64(last)-int64(first))*step + 1
	if count > maxFiles {
		return nil, tooMany("{" + inside + "}")
	}
	all := make([]string, 0, count)
	for i := range count {
		all = append(all, fmt.Sprintf("%0*d", width, int64(first)+i*step))
	}
	return all, nil
}
