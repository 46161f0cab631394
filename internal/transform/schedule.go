package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
)

// maxPhases bounds what schedules may ask for (docs/limits.md). Each phase has its own plans, and all of them are
// compiled when a loader opens, so that an impossible size is refused then and not during the training.
const maxPhases = 256

// Schedule is a size that changes with the epoch or the step: {"by": "epoch", "at": [[0, 128], [10, 160]]}. It may
// stand in place of a size. The sizes in it stay raw JSON, because each transform reads a size by its own rules and
// refuses it in its own words.
type Schedule struct {
	By string   `json:"by"`
	At []Change `json:"at"`
}

// Change is a size, and the epoch or step from which it applies.
type Change struct {
	From int64
	Size json.RawMessage
}

// UnmarshalJSON reads [from, size].
func (c *Change) UnmarshalJSON(data []byte) error {
	var pair []json.RawMessage
	// json silently reads null into a number and leaves it at 0.
	if json.Unmarshal(data, &pair) != nil || len(pair) != 2 || string(pair[0]) == "null" || json.Unmarshal(pair[0], &c.From) != nil {
		return fmt.Errorf("%s is no [from, size]", short(data))
	}
	c.Size = pair[1]
	return nil
}

// scheduleOf returns the schedule that stands for a size; nil if it is something else.
func scheduleOf(size json.RawMessage) *Schedule {
	if text := bytes.TrimSpace(size); len(text) == 0 || text[0] != '{' {
		return nil
	}
	var s Schedule
	decoder := json.NewDecoder(bytes.NewReader(size))
	// A typo such as "epochs" should be an error, and not a schedule without a unit.
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return &Schedule{} // check refuses it
	}
	return &s
}

// check says what is wrong with the schedule; the sizes are checked where they are used.
func (s *Schedule) check() error {
	if s.By != "epoch" && s.By != "step" {
		return errors.New(`is no schedule (expected {"by": "epoch" or "step", "at": [[0, size], ...]})`)
	}
	if len(s.At) == 0 || len(s.At) > maxPhases {
		return fmt.Errorf("has a schedule of %d sizes (expected 1 to %d)", len(s.At), maxPhases)
	}
	if s.At[0].From != 0 {
		return fmt.Errorf("has a schedule that begins at %d (expected 0)", s.At[0].From)
	}
	for i := 1; i < len(s.At); i++ {
		switch from, before := s.At[i].From, s.At[i-1].From; {
		case from == before:
			return fmt.Errorf("has two sizes from %s %d on (expected one)", s.By, from)
		case from < before:
			return fmt.Errorf("has a schedule with %s %d behind %d (expected ascending numbers)", s.By, from, before)
		}
	}
	return nil
}

// at returns the size that applies at a place. After the last change its size stays, however many epochs follow.
func (s *Schedule) at(place int64) json.RawMessage {
	// check has made sure that the changes ascend from 0, as a binary search needs.
	later := sort.Search(len(s.At), func(i int) bool { return s.At[i].From > place })
	return s.At[max(later-1, 0)].Size
}

// eachSize calls change to replace the size of a transform and of those inside it. What cannot be read is returned as
// it is. The same walk finds and replaces schedules, so both reach the same places at every depth.
func eachSize(raw json.RawMessage, depth int, change func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	// Parse refuses both of these, and names the place.
	if depth > maxDepth || json.Unmarshal(raw, &given) != nil {
		return raw, nil
	}
	changed := false
	if size, ok := given["size"]; ok {
		made, err := change(size)
		if err != nil {
			return raw, err
		}
		// What stays as it was keeps its bytes, so that errors quote what the user wrote.
		changed = !bytes.Equal(made, size)
		given["size"] = made
	}
	var inner []json.RawMessage
	if json.Unmarshal(given["transforms"], &inner) == nil {
		for i := range inner {
			made, err := eachSize(inner[i], depth+1, change)
			if err != nil {
				return raw, err
			}
			changed = changed || !bytes.Equal(made, inner[i])
			inner[i] = made
		}
		if changed {
			given["transforms"] = marshal(inner)
		}
	}
	if !changed {
		return raw, nil
	}
	return marshal(given), nil
}

// marshal cannot fail, because v was read from JSON.
func marshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// replaceLast replaces the size of the resulting images: that of the last transform with a size, or of all transforms
// with which a choice or an order ends. A choice whose members have no size is skipped, like any other transform
// without one.
func replaceLast(list []json.RawMessage, size json.RawMessage, depth int) bool {
	// This goes backwards: what follows the last size, such as a flip or Normalize, does not change it.
	for i := len(list) - 1; i >= 0 && depth <= maxDepth; i-- {
		var given map[string]json.RawMessage
		if json.Unmarshal(list[i], &given) != nil {
			continue
		}
		e := theTable().entry(nameOf(list[i]))
		switch {
		// Parse refuses an unknown name.
		case e == nil:
			continue
		case e.takes("size"):
			given["size"] = asMany(given["size"], size)
		case e.takes("transforms"):
			var inner []json.RawMessage
			if json.Unmarshal(given["transforms"], &inner) != nil || !replaceIn(e.Name, inner, size, depth+1) {
				continue
			}
			given["transforms"] = marshal(inner)
		default:
			continue
		}
		list[i] = marshal(given)
		return true
	}
	return false
}

// asMany turns one number into height and width if the transform has both. For Resize one number is a side's length,
// and images of several shapes would get several sizes.
func asMany(was, size json.RawMessage) json.RawMessage {
	var sides, news []json.RawMessage
	if json.Unmarshal(was, &sides) != nil || len(sides) != 2 || json.Unmarshal(size, &news) == nil {
		return size
	}
	return marshal([]json.RawMessage{size, size})
}

// replaceIn does what replaceLast does for the transforms of a group, of which one is done, or all in any order. A
// RandomApply does all of its list or none of it, so its last size is the one of the resulting images.
func replaceIn(group string, inner []json.RawMessage, size json.RawMessage, depth int) bool {
	if group == "RandomApply" {
		return replaceLast(inner, size, depth)
	}
	found := false
	for i := range inner {
		// The call comes first, so that it is made for each of them.
		found = replaceLast(inner[i:i+1], size, depth) || found
	}
	return found
}

func nameOf(raw json.RawMessage) string {
	var given struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(raw, &given) // otherwise it has no name
	return given.Name
}
