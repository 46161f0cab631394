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

// place says which transform of the list it was, unless one inside of it has said so.
func (e *Error) place(index int, transform string) {
	e.Index = index
	if e.Transform == "" {
		e.Transform = transform
	} else {
		e.Transform = transform + ", " + e.Transform
	}
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
