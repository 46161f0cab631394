package native

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// FuzzInspect asks for an answer to any bytes. Internal means that the package is wrong about itself,
// so it counts as a crash.
func FuzzInspect(f *testing.F) {
	for _, name := range []string{"", "GIF89a", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "\xff\xd8\xff\xc0"} {
		f.Add([]byte(name))
	}
	f.Add(goJPEG(f, 20, 20))
	f.Add(goPNG(f, 9, 9))
	others, err := filepath.Glob("ctest/testdata/[0-9]*")
	require.NoError(f, err)
	for _, path := range others {
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(data)
	}
	limits := DefaultLimits()
	limits.MaxPixels = 1 << 20
	context, err := NewContext(limits)
	require.NoError(f, err)
	f.Cleanup(context.Close)
	f.Fuzz(func(t *testing.T, b []byte) {
		facts, _, err := context.Inspect(unsafe.Pointer(unsafe.SliceData(b)), int64(len(b)), true)
		var failure *Error
		if err == nil {
			require.NotZero(t, facts.Width)
			require.NotZero(t, facts.Height)
			return
		}
		require.ErrorAs(t, err, &failure)
		require.NotEqual(t, Internal, failure.Code, failure.Text)
		require.LessOrEqual(t, failure.Offset, int64(len(b)))
		require.NotEmpty(t, failure.Text)
	})
}
