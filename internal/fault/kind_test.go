package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestTheFilesGeneratedFromTheListOfKindsAreUpToDate(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to run the generator with")
	}
	said, err := exec.Command(python, "generate.py", "--check").CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// located has a kind and a place, around another error.
type located struct {
	kind  fault.Kind
	place fault.Place
	err   error
}

func (e *located) Error() string           { return "located" }
func (e *located) Unwrap() error           { return e.err }
func (e *located) FaultKind() fault.Kind   { return e.kind }
func (e *located) FaultPlace() fault.Place { return e.place }

func TestTheOutermostKindThatIsNeitherIONorInternalIsTheErrorsKind(t *testing.T) {
	at := func(kind fault.Kind, err error) error {
		return &located{kind, fault.Place{Record: -1, Offset: -1}, err}
	}
	odd := errors.New("odd")
	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{odd, fault.KindInternal},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, fault.KindIO},
		{at(fault.KindChecksum, at(fault.KindTruncated, nil)), fault.KindChecksum},
		{at(fault.KindIO, at(fault.KindTruncated, syscall.EIO)), fault.KindTruncated},
		{at(fault.KindInternal, at(fault.KindLimit, nil)), fault.KindLimit},
		{at(fault.KindMemory, syscall.ENOMEM), fault.KindMemory},
		{at(0, odd), fault.KindInternal},
		{fmt.Errorf("%w, %w", odd, at(fault.KindEmpty, nil)), fault.KindEmpty},
		{fmt.Errorf("opening: %w", fault.New(fault.KindClosed, "closed")), fault.KindClosed},
	} {
		assert.Equal(t, c.want, fault.KindOf(c.err), "%v", c.err)
	}
}

func TestFileRecordAndOffsetComeFromTheOutermostErrorThatKnowsEach(t *testing.T) {
	inner := &located{fault.KindBadImage, fault.Place{File: "inner", Record: 3, Key: "k", Offset: 9}, nil}
	outer := &located{fault.KindBadImage, fault.Place{File: "outer", Record: -1, Offset: 512}, inner}
	assert.Equal(t, fault.Place{File: "outer", Record: 3, Key: "k", Offset: 512}, fault.PlaceOf(fmt.Errorf("x: %w", outer)))
	assert.Equal(t, fault.Place{Record: -1, Offset: -1}, fault.PlaceOf(errors.New("odd")))
}
