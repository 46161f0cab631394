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

// Storage has what a user says about a store in addition to an address. Everything else comes from where the store's
// own tools take it: environment, files, the machine's role. With the zero value all comes from there.
// It is a key of a map (clients), so it has no slices.
type Storage struct {
	Endpoint  string // address of a server that speaks S3's, Google's or Azure's protocol
	Region    string // of S3
	PathStyle bool   // the bucket is in the path instead of in the host's name
	Anonymous bool   // requests are not signed

	// Patience limits the time in which a request is retried; 0 means 60 seconds. All other times follow from it. Users
	// cannot set it.
	Patience time.Duration

	// Timeout limits each wait of a caller: for a range, a page of a list, a part of an upload. With 0 only Patience
	// limits it. A longer wait is an error of kind Late.
	Timeout time.Duration

	kept *client // the client to use even if the environment changes; nil: the client for the present environment
}

// Kept returns the storage with its credentials fixed to those of the present environment. The objects of a dataset are
// opened one by one when they are read, and by then the program may have set the credentials of another dataset.
// Two datasets may have two accounts; each keeps the one that was set when it was opened.
func (s Storage) Kept() Storage {
	followEnvironment()
	s.kept = clientOf(s)
	return s
}

// options has the names that ParseStorage knows, sorted.
// They are also the names in the Python package's storage=.
var options = []string{"anonymous", "endpoint", "path_style", "region"}

// ParseStorage reads the options that a user gives as a JSON object. An empty text and null mean no options.
func ParseStorage(text []byte) (Storage, error) {
	var s Storage
	if text = bytes.TrimSpace(text); len(text) == 0 || string(text) == "null" {
		return s, nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return Storage{}, fault.New(fault.KindArgument, "storage is no object of JSON (expected "+known()+")")
	}
	// The names are sorted, so that the same one of two wrong options is reported each time.
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

// set sets one option. The error does not repeat the value, which may be a secret in the wrong place.
// Patience and Timeout are not among the options; the engine sets them.
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

// isEndpoint refuses a path, because the store's library would drop it when it puts bucket and key into the URL.
func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		(u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == "" && len(text) <= mostURL
}

// isRegion allows few characters, because a region becomes a part of a host's name and of a header.
func isRegion(text string) bool {
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}
