package remote

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/fault"
)

// Storage is what a user says of a store beyond an address. What is not said comes from where the
// store's own tools take it: environment, files, the machine's role. The zero value is all of that.
// It is a key of a map (clients), so it has no slices.
type Storage struct {
	Endpoint  string // address of a server that speaks S3's, Google's or Azure's protocol
	Region    string // of S3
	PathStyle bool   // the bucket stands in the path and not in the host's name
	Anonymous bool   // requests are not signed

	// Patience bounds the time in which a request is tried again; 0 is 60 seconds. All other times
	// follow from it. It is no option of users.
	Patience time.Duration

	// Timeout bounds what a caller waits for at once: a range, a page of a list, a part of an upload; 0 leaves
	// that to Patience. What takes longer is an error of kind Late.
	Timeout time.Duration

	kept *client // which everything goes through, whatever becomes of the environment; nil: that of now
}

// Kept is a storage whose credentials are those of the environment as it is now. The objects of a dataset are opened
// one by one, as they are read, and the program may have set those of another dataset by then.
// Two datasets may have two accounts: each of them keeps the one that counted when it was opened.
func (s Storage) Kept() Storage {
	followEnvironment()
	s.kept = clientOf(s)
	return s
}

// options are those that ParseStorage knows, sorted.
// They are the words of the Python package's storage= as well.
var options = []string{"anonymous", "endpoint", "path_style", "region"}

// ParseStorage reads the options that a user gives, a JSON object. Nothing and null are no options.
func ParseStorage(text []byte) (Storage, error) {
	var s Storage
	if text = bytes.TrimSpace(text); len(text) == 0 || string(text) == "null" {
		return s, nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return Storage{}, fault.New(fault.KindArgument, "storage is no object of JSON (expected "+known()+")")
	}
	// Sorted, so that of two wrong ones the same is told each time.
	for _, name := range slices.Sorted(keysOf(given)) {
		if err := s.set(name, given[name]); err != nil {
			return Storage{}, err
		}
	}
	return s, nil
}

// keysOf yields the names of a map, for slices.Sorted.
func keysOf(m map[string]json.RawMessage) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// set is one option. A value is not repeated in the error: it may be a secret in a wrong place.
// Patience and Timeout are no options here: they are set by the engine.
func (s *Storage) set(name string, value json.RawMessage) error {
	wrong := func(expected string) error {
		return fault.New(fault.KindArgument, `storage["`+name+`"] is something else (expected `+expected+`)`)
	}
	switch name {
	case "endpoint":
		if json.Unmarshal(value, &s.Endpoint) != nil || !isEndpoint(s.Endpoint) {
			return wrong(`an address such as "https://host:9000", without name, path and query`)
		}
		s.Endpoint = strings.TrimSuffix(s.Endpoint, "/")
	case "region":
		if json.Unmarshal(value, &s.Region) != nil || !isRegion(s.Region) {
			return wrong(`a text such as "eu-central-1"`)
		}
	case "path_style":
		if string(value) == "null" || json.Unmarshal(value, &s.PathStyle) != nil {
			return wrong("true or false")
		}
	case "anonymous":
		if string(value) == "null" || json.Unmarshal(value, &s.Anonymous) != nil {
			return wrong("true or false")
		}
	default:
		return fault.New(fault.KindArgument, fault.Argument("storage's option", name, known()))
	}
	return nil
}

func known() string { return "some of " + strings.Join(options, ", ") }

// isEndpoint allows no path, which would be lost where the store's library puts bucket and key into the URL.
func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		(u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == "" && len(text) <= mostURL
}

// isRegion allows few letters, because a region becomes a part of a host's name and of a header.
func isRegion(text string) bool {
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}
