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

// maxFiles limits the number of files of a pattern: "{0..999999999}" is a typing mistake.
const maxFiles = 1 << 20

// marks begin a pattern: braces and wildcards.
const marks = "{*?["

// IsPattern is true for a source that stands for several, unless a file has that name.
func IsPattern(source string) bool {
	return strings.ContainsAny(source, marks) || strings.Contains(source, joint)
}

// expand returns the files of a source: the source itself if that file exists, otherwise the result of its braces and
// then of its wildcards. named is false if the files were searched for and not listed by name.
func expand(source string) (files []string, named bool, err error) {
	_, err = os.Lstat(source)
	if err != nil {
		if said := remote.Mistaken(source); said != "" {
			return nil, false, catalog.NewError(fault.KindArgument, "", "%s", said)
		}
		if parts := strings.Split(source, joint); len(parts) > 1 && !slices.Contains(parts, "") && !begins(source) {
			return expandEach(parts)
		}
	}
	// A file's own name may look like a pattern, as a[1].tar does.
	if err == nil || !strings.ContainsAny(source, marks) {
		return []string{source}, true, nil
	}
	texts, err := braces(source)
	if err != nil {
		return nil, false, catalog.NewError(fault.KindArgument, source, "%v", err)
	}
	named = true
	for _, text := range texts {
		if _, err := os.Lstat(text); err == nil || !strings.ContainsAny(text, "*?[") {
			found, all := []string{text}, true
			if len(texts) > 1 { // one of several texts may be a folder, as one of several sources may
				if found, all, err = oneOfSeveral(text); err != nil {
					return nil, false, err
				}
			}
			files, named = append(files, found...), named && all
			continue
		}
		named = false
		found, err := filepath.Glob(text)
		// Glob's only error is ErrBadPattern. Folders that cannot be read give no files, as in a shell.
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

// joint is between several sources in one text, as WebDataset writes them (webdataset 1.0, shardlists.py, expand_urls).
const joint = "::"

// begins is true if the text before a pattern's first brace or wildcard has a joint, and some file's name begins with
// that text. Then the joint belongs to the names, as in /data/a::b/*.tar.
func begins(pattern string) bool {
	at := strings.IndexAny(pattern, marks)
	if at < 0 || !strings.Contains(pattern[:at], joint) {
		return false
	}
	found, _ := filepath.Glob(pattern[:at] + "*")
	return len(found) > 0
}

// expandEach is expand for several sources, of which each may be a folder.
func expandEach(sources []string) (files []string, named bool, err error) {
	named = true
	for _, source := range sources {
		if remote.IsURL(source) {
			return nil, false, severalAway(sources, source)
		}
		found, all, err := expand(source)
		if err == nil && all && len(found) == 1 {
			found, all, err = oneOfSeveral(found[0])
		}
		if err != nil {
			return nil, false, err
		}
		files, named = append(files, found...), named && all
	}
	return files, named, nil
}

// apart returns the addresses of a text with several. Between two of them there is a joint and then a scheme; a joint
// elsewhere belongs to an address, as in http://[::1]/a.tar.
func apart(source string) (addresses []string) {
	begin := 0
	for at := 0; at < len(source); at++ {
		if rest, joined := strings.CutPrefix(source[at:], joint); joined && at > begin && remote.IsURL(rest) {
			addresses, begin = append(addresses, source[begin:at]), at+len(joint)
		}
	}
	return append(addresses, source[begin:])
}

// braces expands {a,b} and {000..146} as a shell does, because WebDataset's URLs are written like that. Braces that
// hold neither stay as they are, and so does one without its other half.
// It calls itself for the text after a pair and for the text inside it. The number of texts is limited at each step,
// because "{0..9}" written seven times gives ten million.
func braces(text string) ([]string, error) {
	open, end := firstPair(text)
	if end < 0 {
		return []string{text}, nil
	}
	// Each text of the first pair is combined with each text of what follows the pair.
	choices, err := alternatives(text[open+1 : end])
	if err != nil {
		return nil, err
	}
	// This pair stays, but there may be others inside.
	if choices == nil {
		if choices, err = braces(text[open+1 : end]); err != nil {
			return nil, err
		}
		for i, choice := range choices {
			choices[i] = "{" + choice + "}"
		}
	}
	rest, err := braces(text[end+1:])
	if err != nil {
		return nil, err
	}
	// This divides instead of multiplying, and comes before anything of that size is allocated.
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

// firstPair returns the places of the first pair of braces that is inside no other pair; end is -1 if there is none. A
// brace that is never closed is inside no pair, and neither is what follows it.
func firstPair(text string) (open, end int) {
	open, end = -1, -1
	var opened []int // places of the braces that are not closed yet
	for i := range len(text) {
		switch {
		case text[i] == '{':
			opened = append(opened, i)
		case text[i] == '}' && len(opened) > 0:
			last := opened[len(opened)-1]
			opened = opened[:len(opened)-1]
			// Of two pairs the one that opens first is either before the other one or around it.
			if end < 0 || last < open {
				open, end = last, i
			}
			if len(opened) == 0 {
				return open, end
			}
		}
	}
	return open, end
}

// tooMany does not say how many: to find a mistyped digit the text is enough, and counting would visit all of them.
func tooMany(text string) error {
	return fmt.Errorf("the braces of %.80q stand for more than %d files", text, maxFiles)
}

// alternatives returns the texts inside one pair of braces, nil if there are none.
// A list may hold further braces, as in {a,{0..3}}, so each of its texts is expanded again.
func alternatives(inside string) ([]string, error) {
	if from, to, ok := strings.Cut(inside, ".."); ok && !strings.ContainsAny(inside, ",{") {
		to, step, stepped := strings.Cut(to, "..")
		return numbers(inside, from, to, step, stepped)
	}
	var parts []string
	depth, begin := 0, 0
	for i := range len(inside) {
		switch inside[i] {
		case '{':
			depth++
		case '}':
			depth--
		// A comma inside an inner pair divides that pair only.
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

// numbers returns the numbers of a range, as in bash ("Brace Expansion"). A leading zero on either side pads all
// numbers to the longer one's width. A step may follow, as in {0..100..10}; its sign does not matter, and 0 means 1.
func numbers(inside, from, to, step string, stepped bool) ([]string, error) {
	// 62 bits are read, so that a difference fits an int64. Ranges of letters stay as they are.
	first, err := strconv.ParseUint(from, 10, 62)
	last, wrong := strconv.ParseUint(to, 10, 62)
	if err != nil || wrong != nil {
		return nil, nil
	}
	each := uint64(1)
	if stepped {
		if each, err = strconv.ParseUint(strings.TrimPrefix(step, "-"), 10, 62); err != nil {
			return nil, nil
		}
		each = max(each, 1)
	}
	width := 0
	if len(from) > 1 && from[0] == '0' || len(to) > 1 && to[0] == '0' {
		width = max(len(from), len(to))
	}
	count := (max(first, last)-min(first, last))/each + 1
	if count > maxFiles {
		return nil, tooMany("{" + inside + "}")
	}
	all := make([]string, 0, count)
	for i := range count {
		number := first + i*each
		if last < first {
			number = first - i*each
		}
		all = append(all, fmt.Sprintf("%0*d", width, number))
	}
	return all, nil
}
