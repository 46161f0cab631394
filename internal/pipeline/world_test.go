package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// photograph is a JPEG of noise over a gradient, whose size and content depend on its number alone.
func photograph(t testing.TB, number int) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(number), 7))
	width, height := 40+random.IntN(60), 40+random.IntN(60)
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			picture.SetNRGBA(x, y, color.NRGBA{uint8(x * 3), uint8(y*2 + random.IntN(40)), uint8(number), 255})
		}
	}
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, picture, &jpeg.Options{Quality: 85}))
	return b.Bytes()
}

// dataset writes a dataset of JPEGs in one shard, with an index. spoil may alter a sample's row and
// bytes after its checksum was taken. A test that leaves anything open fails.
func dataset(t testing.TB, samples int, spoil func(i int, row *catalog.Row, data []byte) []byte) *catalog.Dataset {
	t.Helper()
	before := usage(t)
	t.Cleanup(func() { requireNoLeaks(t, before) })
	root := t.TempDir()
	w, err := catalog.NewWriter(filepath.Join(root, catalog.IndexFileName(0)), catalog.Packed, nil)
	require.NoError(t, err)
	var shard []byte
	for i := range samples {
		data := photograph(t, i)
		row := catalog.Row{Key: fmt.Sprintf("cat/%d", i), Sample: catalog.Sample{
			Label: int64(i % 10), HasCRC: true, Verdict: catalog.Good,
			Facts: catalog.Facts{Width: 1, Height: 1, Channels: 3, Codec: 1, Sampling: 1, Process: 1, CRC32C: native.CRC32C(0, data)}}}
		if spoil != nil {
			data = spoil(i, &row, data)
		}
		shard = append(shard, make([]byte, 512+(512-len(shard)%512)%512)...) // as in a tar
		row.Offset, row.Length = int64(len(shard)), int64(len(data))
		shard = append(shard, data...)
		require.NoError(t, w.Append(&row))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, catalog.ShardName(0)), shard, 0o600))
	manifest, err := w.Finish()
	require.NoError(t, err)
	manifest.Index.Name = catalog.IndexFileName(0)
	manifest.Shards = []catalog.ShardInfo{{Name: catalog.ShardName(0), Size: int64(len(shard)), Rows: int64(samples)}}
	for c := range 10 {
		manifest.Classes = append(manifest.Classes, fmt.Sprintf("class %d", c))
	}
	text, err := manifest.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, catalog.ManifestName), text, 0o600))
	d, err := catalog.Open(root, catalog.Options{})
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

const (
	cropSize = 32
	// For require.Eventually: how long something may take on a busy machine, and how often to look.
	waitLong  = 10 * time.Second
	waitShort = time.Millisecond
)

// augmented is a random crop and flip: any error in a draw's key shows in the pixels.
func augmented(t testing.TB) *native.Plan {
	t.Helper()
	plan, err := native.NewPlan([]native.Op{
		native.RandomResizedCrop{Height: cropSize, Width: cropSize, Filter: native.Bilinear, Scale: [2]float64{0.08, 1}, Ratio: [2]float64{0.75, 4.0 / 3}},
		native.HorizontalFlip{Probability: 0.5},
	}, native.Output{DType: native.Uint8, Layout: native.NCHW})
	require.NoError(t, err)
	return plan
}

// settings are what tests vary.
type settings struct {
	order order.Config
	Config
}

// configure makes the configuration of a Loader over d, with the augmented recipe.
func (s settings) configure(t testing.TB, d *catalog.Dataset) Config {
	t.Helper()
	s.order.Samples = d.Len()
	samples, err := order.New(s.order)
	require.NoError(t, err)
	c := s.Config
	c.Dataset, c.Order, c.Recipe = d, samples, OneView(augmented(t))
	if c.Limits == (native.Limits{}) {
		c.Limits = native.DefaultLimits()
	}
	return c
}

// open makes a Loader, which is closed at the test's end at the latest.
func open(t testing.TB, d *catalog.Dataset, s settings) *Loader {
	t.Helper()
	l, err := Open(s.configure(t, d))
	require.NoError(t, err)
	t.Cleanup(func() {
		l.Close()
		l.Close()
		<-l.gone // there may be a read that still hangs
		stats := l.pool.Stats()
		assert.Zero(t, stats.Free+stats.Filling+stats.Ready+stats.Held, "slots")
	})
	return l
}

type counts struct {
	descriptors, goroutines, mappings int
	buffers                           int64
}

var poller sync.Once

// usage counts what a Loader might leave open.
func usage(t testing.TB) counts {
	t.Helper()
	poller.Do(func() { // the runtime's own descriptors are made with the first pipe and stay
		r, w, err := os.Pipe()
		require.NoError(t, err)
		r.Close()
		w.Close()
	})
	descriptors, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return counts{len(descriptors), runtime.NumGoroutine(),
		strings.Count(string(maps), "/dev/zero\n") + strings.Count(string(maps), ".tar"), mmap.BufferBytes()}
}

func (c counts) butAtMost(now counts) counts {
	return counts{min(c.descriptors, now.descriptors), min(c.goroutines, now.goroutines),
		min(c.mappings, now.mappings), min(c.buffers, now.buffers)}
}

func requireNoLeaks(t testing.TB, before counts) {
	t.Helper()
	after := usage(t)
	// What an earlier test closed may still have been counted before: a goroutine that is about to end, or a file
	// that the garbage collector closes. So fewer than before are right, too.
	for deadline := time.Now().Add(2 * time.Second); after != before && time.Now().Before(deadline); after = usage(t) {
		time.Sleep(time.Millisecond)
		before = before.butAtMost(after)
	}
	assert.Equal(t, before, after, "the test left something open")
}

// next is the next batch or end, or a failure if it takes too long.
func next(t testing.TB, l *Loader) (*Batch, error) {
	t.Helper()
	b, err := l.Next(time.Minute)
	require.NotErrorIs(t, err, ErrTimeout)
	return b, err
}

// pixels copies the images of a batch out of its slot.
func (b *Batch) pixels() []byte {
	return bytes.Clone(unsafe.Slice((*byte)(b.Images()), b.Length*b.layout.Fields[0].SampleBytes))
}

// streamed is what a consumer saw of some epochs.
type streamed struct {
	hash    string
	batches []string // epoch, step, indices, labels and a hash of the pixels of each
}

// consume reads whole epochs.
func consume(t testing.TB, l *Loader, epochs int) streamed {
	t.Helper()
	var s streamed
	for epochs > 0 {
		b, err := next(t, l)
		if errors.Is(err, ErrEnd) {
			epochs--
			s.batches = append(s.batches, "end")
			continue
		}
		require.NoError(t, err)
		s.batches = append(s.batches, describe(b))
		require.NoError(t, b.Release())
	}
	hash := sha256.Sum256([]byte(strings.Join(s.batches, "\n")))
	s.hash = hex.EncodeToString(hash[:])
	return s
}

func describe(b *Batch) string {
	return fmt.Sprintf("%d/%d %v %v %x", b.Epoch, b.Step, b.Indices(), b.Labels(), sha256.Sum256(b.pixels()))
}
