package transform

import "fmt"

// Error is a transform that cannot be. Transform and Argument are empty where the list as a whole,
// or the transform as a whole, is wrong.
type Error struct {
	Index     int // place in the list
	Transform string
	Argument  string
	Text      string
}

func (e *Error) Error() string {
	switch {
	case e.Transform == "":
		return fmt.Sprintf("transform %d: %s", e.Index, e.Text)
	case e.Argument == "":
		return fmt.Sprintf("transform %d, %s: %s", e.Index, e.Transform, e.Text)
	}
	return fmt.Sprintf("transform %d, %s: %s %s", e.Index, e.Transform, e.Argument, e.Text)
}
