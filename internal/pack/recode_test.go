package pack

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/limits"
	"github.com/headrace/headrace/native"
)

func number(v int32) *int32 { return &v }

// bytesOf is the bytes of a record in the shards.
func bytesOf(t *testing.T, d *catalog.Dataset, i int64) []byte {
	sample, err := d.Sample(i)
	require.NoError(t, err)
	path, err := d.Path(i)
	require.NoError(t, err)
	shard, err := os.ReadFile(path)
	require.NoError(t, err)
	return shard[sample.Offset : sample.Offset+sample.Length]
}

func TestReencodedDatasetsAreTheSameForAnyNumberOfThreads(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 60)
	var first string
	for _, threads := range []int{1, 2, 8} {
		dst, s := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes,
			Options: Options{Threads: threads}, RecodeOptions: RecodeOptions{Resize: number(24), Baseline: true}})
		require.Equal(t, "resize 24, quality 90", s.Lossy)
		require.Greater(t, s.Reencoded, int64(30))
		require.Less(t, s.Reencoded, s.Rows-testFaults)
		require.EqualValues(t, testFaults, s.Faults.Total)
		if first == "" {
			first = digest(t, dst)
		}
		require.Equal(t, first, digest(t, dst), "%d threads", threads)
	}
}

func TestRawDatasetsAreTheSameForAnyNumberOfThreadsAndReportTheirBytes(t *testing.T) {
	checkNoLeaks(t)
	src := testFolder(t, 60)
	var first string
	for _, threads := range []int{1, 8} {
		dst, s := packed(t, PackConfig{Source: src, ShardBytes: minShardBytes,
			Options: Options{Threads: threads}, RecodeOptions: RecodeOptions{Resize: number(24), Raw: true}})
		require.Equal(t, "resize 24, raw", s.Lossy)
		require.Equal(t, s.Rows-testFaults, s.Raw.Images)
		require.Less(t, s.Reencoded, s.Raw.Images, "small images are not resized")
		d := open(t, dst)
		var bytes int64
		for i := range d.Len() {
			sample, err := d.Sample(i)
			require.NoError(t, err)
			if sample.Codec == native.CodecPPM {
				require.Equal(t, native.ProcessRaw, sample.Process)
				bytes += sample.Length
			}
		}
		require.Equal(t, bytes, s.Raw.Bytes)
		require.Positive(t, s.Raw.FromBytes)
		if first == "" {
			first = digest(t, dst)
		}
		require.Equal(t, first, digest(t, dst), "%d threads", threads)
	}
}

func TestAReencodedPNGIsAMemberNamedJPG(t *testing.T) {
	checkNoLeaks(t)
	src := t.TempDir()
	picture := image.NewNRGBA(image.Rect(0, 0, 90, 60))
	for i := range picture.Pix {
		picture.Pix[i] = byte(i*i) | 0x80
	}
	var data bytes.Buffer
	require.NoError(t, png.Encode(&data, picture))
	put(t, src, "a/picture.png", data.Bytes())
	put(t, src, "a/small.png", testPNG())
	dst, s := packed(t, PackConfig{Source: src, RecodeOptions: RecodeOptions{Resize: number(30), Quality: number(70)}})
	require.EqualValues(t, 1, s.Reencoded)
	d := open(t, dst)
	made, err := jpeg.Decode(bytes.NewReader(bytesOf(t, d, 0)))
	require.NoError(t, err)
	require.Equal(t, image.Pt(45, 30), made.Bounds().Size())
	require.Equal(t, testPNG(), bytesOf(t, d, 1))
	sample, err := d.Sample(0)
	require.NoError(t, err)
	require.Equal(t, native.CodecJPEG, sample.Codec)
	shard, err := os.ReadFile(filepath.Join(dst, d.Shards()[0].Name))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(shard), "a/picture.jpg\x00"), "%q", shard[:20])
	require.Contains(t, string(shard), "a/small.png\x00")
}

func TestAnImageThatReencodingWouldMakeTooLargeKeepsItsBytes(t *testing.T) {
	checkNoLeaks(t)
	src := t.TempDir()
	data := testJPEG(7)
	put(t, src, "a/a.jpg", data)
	for _, options := range []RecodeOptions{{Quality: number(100)}, {Raw: true}} {
		dst, s := packed(t, PackConfig{Source: src, RecodeOptions: options,
			Options: Options{Limits: limits.Limits{MaxRecordBytes: uint64(len(data))}}})
		require.Zero(t, s.Reencoded)
		require.Empty(t, s.Lossy)
		require.Nil(t, s.Raw)
		require.Equal(t, data, bytesOf(t, open(t, dst), 0))
	}
}

func TestTheRefusalOfImpossibleRecodingNamesTheOption(t *testing.T) {
	src := testFolder(t, 1)
	for want, options := range map[string]RecodeOptions{
		"resize is 0 (expected 1 to 65500)":     {Resize: number(0)},
		"resize is 70000 (expected 1 to 65500)": {Resize: number(70000)},
		"quality is -3 (expected 1 to 100)":     {Quality: number(-3)},
		"quality is 101 (expected 1 to 100)":    {Resize: number(8), Quality: number(101)},
		"raw goes with resize alone":            {Raw: true, Quality: number(90)},
		"it writes no JPEG":                     {Raw: true, Baseline: true},
	} {
		parent := t.TempDir()
		c := PackConfig{Source: src, Destination: filepath.Join(parent, "out"), RecodeOptions: options}
		_, err := Pack(context.Background(), c, nil)
		require.Equal(t, fault.KindArgument, kindOf(err))
		require.ErrorContains(t, err, want)
		requireNothing(t, parent)
	}
}
