package order

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/golden*.txt again (then the state's version must rise)")

// A job resumed with a newer release must go on in the same order, so the first indices of some
// orders are pinned as text.
func TestTheOrderEqualsTheGoldenVectors(t *testing.T) {
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
		writeFirst(&text, o, c.epoch)
	}
	requireGolden(t, "testdata/golden.txt", text.String())
}

func TestTheWindowedOrderEqualsTheGoldenVectors(t *testing.T) {
	var text strings.Builder
	text.WriteString("# seed epoch samples window: the samples at the first 16 positions\n")
	for _, c := range []struct {
		seed                 uint64
		epoch, count, window int64
	}{
		{0, 0, 7, 3}, {0, 0, 117, 16}, {0, 1, 117, 16}, {1, 0, 117, 512}, {1, 0, 10_007, 512},
		{42, 3, 65537, 4096}, {1<<64 - 1, 89, 1281167, 1 << 16}, {20261121, 1 << 40, 1<<40 + 1, 1 << 20},
	} {
		o := mustOrder(t, Config{Seed: c.seed, Samples: c.count, BatchSize: 1, Shuffle: true, Window: c.window})
		fmt.Fprintf(&text, "%d %d %d %d:", c.seed, c.epoch, c.count, c.window)
		writeFirst(&text, o, c.epoch)
	}
	requireGolden(t, "testdata/golden_window.txt", text.String())
}

func TestTheWeightedOrderEqualsTheGoldenVectors(t *testing.T) {
	var text strings.Builder
	text.WriteString("# seed epoch draws: the samples at the first 16 positions\n")
	weights := []float64{1, 0, 2.5, 0.1, 4, 1, 1e-3, 9}
	labels := []int64{3, 1, 1, 1, 3, 2, 1, 1, 1, 3, 1, 1}
	for _, c := range []struct {
		seed         uint64
		epoch, draws int64
	}{{0, 0, 16}, {0, 1, 16}, {1, 0, 1000}, {1<<64 - 1, 89, 1281167}} {
		weighted, err := Weighted(weights, c.draws)
		require.NoError(t, err)
		balanced, err := Balanced(labels, c.draws)
		require.NoError(t, err)
		for _, s := range []*Selection{weighted, balanced} {
			o := mustOrder(t, Config{Seed: c.seed, Samples: s.samples, Selection: s, BatchSize: 1, Shuffle: true})
			fmt.Fprintf(&text, "%d %d %d:", c.seed, c.epoch, c.draws)
			writeFirst(&text, o, c.epoch)
		}
	}
	requireGolden(t, "testdata/golden_weighted.txt", text.String())
}

func TestTheRepeatedOrderEqualsTheGoldenVectors(t *testing.T) {
	var text strings.Builder
	text.WriteString("# seed epoch samples times window: the samples at the first 16 positions\n")
	for _, c := range []struct {
		seed                        uint64
		epoch, count, times, window int64
	}{{0, 0, 7, 3, 0}, {0, 1, 117, 3, 0}, {1, 0, 117, 2, 16}, {1<<64 - 1, 89, 1281167, 3, 0}} {
		s, err := Repeated(c.count, c.times, -1)
		require.NoError(t, err)
		o := mustOrder(t, Config{Seed: c.seed, Samples: c.count, Selection: s, BatchSize: 1, Shuffle: true, Window: c.window})
		fmt.Fprintf(&text, "%d %d %d %d %d:", c.seed, c.epoch, c.count, c.times, c.window)
		writeFirst(&text, o, c.epoch)
	}
	requireGolden(t, "testdata/golden_repeated.txt", text.String())
}

// writeFirst ends a line with the samples at the first 16 positions.
func writeFirst(text *strings.Builder, o *Order, epoch int64) {
	for position := range min(16, o.Length()) {
		sample, _ := o.At(epoch, position)
		fmt.Fprintf(text, " %d", sample)
	}
	text.WriteByte('\n')
}

func requireGolden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	golden, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(golden), text)
}
