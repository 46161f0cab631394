package scan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSamplesWithoutAnImageAreCountedInAWarning(t *testing.T) {
	// Whose members are not grouped: what WebDataset takes for four samples.
	names := []string{"0.jpg", "x", "1.jpg", "x", "0.cls", "0", "1.cls", "1"}
	dir := put(t, map[string][]byte{"a.tar": archive(names...), "b.tar": archive("2.jpg", "x", "2.cls", "2")})
	d := open(t, dir, Options{})
	require.Equal(t, []string{`2 of 5 samples have no image, and are errors where they are read; on_error="replace" of a loader passes over them`}, d.Warnings())
	require.Empty(t, open(t, dir+"/b.tar", Options{}).Warnings())
}
