package transform

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheRefusalOfAScheduleNamesTheNumberThatIsWrong(t *testing.T) {
	for at, want := range map[string]string{
		`[]`:                       `has a schedule of 0 sizes (expected 1 to 256)`,
		`[[null, 8]]`:              `is no schedule (expected {"by": "epoch" or "step", "at": [[0, size], ...]})`,
		`[[1, 8]]`:                 `has a schedule that begins at 1 (expected 0)`,
		`[[-1, 8], [0, 8]]`:        `has a schedule that begins at -1 (expected 0)`,
		`[[0, 8], [9, 8], [5, 8]]`: `has a schedule with step 5 behind 9 (expected ascending numbers)`,
		`[[0, 8], [0, 9]]`:         `has two sizes from step 0 on (expected one)`,
	} {
		list := []json.RawMessage{json.RawMessage(`{"name": "CenterCrop", "size": {"by": "step", "at": ` + at + `}}`)}
		_, err := ParseAt(list, 0, Options{})
		assert.EqualError(t, err, "transform 0 (CenterCrop): size "+want, at)
	}
}
