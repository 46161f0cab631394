package cache

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/environment"
	"github.com/headrace/headrace/internal/fault"
)

const (
	// Variable names the directory of the cache, or switches it off (switchesOff). Without it, the cache is in the
	// directory headrace below XDG_CACHE_HOME or ~/.cache.
	Variable = "HEADRACE_CACHE"
	// SizeVariable is its bound, in bytes.
	SizeVariable = "HEADRACE_CACHE_SIZE"
	// defaultBound is enough for the seek points of 2 million photographs of 110 kB: ImageNet and half as much again.
	defaultBound = 4 << 30
)

// switchesOff are the values of Variable that mean no cache, in any case of letters. Programs use all of them for such
// variables, and nobody means a folder by them; ./off is one.
var switchesOff = map[string]bool{"off": true, "0": true, "no": true, "none": true, "false": true}

// OpenUsers opens the cache that the environment names. The text says what is wrong with the environment, and is empty
// if nothing is. The cache is nil if something is wrong, if it is off, or if it cannot be made.
func OpenUsers() (*Cache, string) {
	bound, err := boundOf(environment.Get(SizeVariable))
	if err != nil {
		return nil, err.Error()
	}
	dir := directory()
	if dir == "" {
		return nil, ""
	}
	return Open(dir, bound), ""
}

func boundOf(text string) (int64, error) {
	if text == "" {
		return defaultBound, nil
	}
	bound, err := strconv.ParseInt(text, 10, 64)
	if err != nil || bound < LeastBound {
		return 0, fault.New(fault.KindArgument, fault.Argument(SizeVariable, text, fmt.Sprintf("a number of bytes, at least %d", LeastBound)))
	}
	return bound, nil
}

// directory returns an empty text if there is to be no cache. It ignores relative paths, as the XDG specification says.
func directory() string {
	switch dir := environment.Get(Variable); {
	case switchesOff[strings.ToLower(dir)]:
		return ""
	case dir != "":
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return ""
		}
		return absolute
	}
	for _, base := range []string{environment.Get("XDG_CACHE_HOME"), filepath.Join(environment.Get("HOME"), ".cache")} {
		if filepath.IsAbs(base) {
			return filepath.Join(base, "headrace")
		}
	}
	return ""
}
