package order

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/golden.txt anew (then the state's version must rise)")

// A job resumed with a newer release must go on in the same order, so the first indices of some
// orders are pinned as text.
func TestOrderIsThatOfTheGoldenVectors(t *testing.T) {
	var text strings.Builder
	text.WriteString("# seed epoch samples: the samples at the first 16 positions\n")
	for _, c := range []struct {
		seed         uint64
		epoch, count int64
	}{
		{0, 0, 1}, {0, 0, 7}, {0, 0, 117}, {0, 1, 117}, {1, 0, 117},
		{42, 3, 65537}, {1<<64 - 1, 89, 1281167}, {20261121, 1 << 40, 1<<40 + 1},
	} {
		o := mustOrder(t, Config{Seed: c.seed, Samples: c.count, BatchSize: 1, Shuffle: true})
		fmt.Fprintf(&text, "%d %d %d:", c.seed, c.epoch, c.count)
		for position := range min(16, c.count) {
			fmt.Fprintf(&text, " %d", o.At(c.epoch, position))
		}
		text.WriteByte('\n')
	}
	const path = "testdata/golden.txt"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
	}
	golden, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(golden), text.String())
}
