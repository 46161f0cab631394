package pack

import (
	"encoding/json"

	"github.com/headrace/headrace/internal/pathjson"
)

// Results contain paths, which need not be valid text. Each of these methods writes its path as package pathjson does,
// instead of the string that encoding/json would write.

// MarshalJSON writes the destination as a path.
func (s Summary) MarshalJSON() ([]byte, error) {
	type plain Summary
	return json.Marshal(struct {
		Destination pathjson.Text `json:"destination"`
		plain
	}{pathjson.Text(s.Destination), plain(s)})
}

// MarshalJSON writes the file as a path.
func (f Fault) MarshalJSON() ([]byte, error) {
	type plain Fault
	return json.Marshal(struct {
		File pathjson.Text `json:"file"`
		plain
	}{pathjson.Text(f.File), plain(f)})
}

// MarshalJSON writes the dataset's directory as a path.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		Path pathjson.Text `json:"path"`
		plain
	}{pathjson.Text(r.Path), plain(r)})
}

// MarshalJSON writes the file as a path.
func (f Finding) MarshalJSON() ([]byte, error) {
	type plain Finding
	return json.Marshal(struct {
		File pathjson.Text `json:"file"`
		plain
	}{pathjson.Text(f.File), plain(f)})
}
