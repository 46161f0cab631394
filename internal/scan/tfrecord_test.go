package scan

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headrace/headrace/internal/fault"
)

func TestTFRecordsAreReadAsTensorFlowReadsThem(t *testing.T) {
	d := open(t, "testdata/slim.tfrecord", Options{})
	want := expected(t, "slim.tfrecord")
	require.Len(t, want, int(d.Len()))
	require.Equal(t, []int64{1, 2, 3, 4}, labels(t, d), "the numbers are kept; slim's begin at 1")
	for i, crc := range contents(t, d) {
		require.Equal(t, want[i].Members["image/encoded"], crc)
		require.Equal(t, want[i].Key, keys(t, d)[i])
		text, err := d.FieldValue(int64(i), "image/class/text")
		require.NoError(t, err)
		require.Equal(t, want[i].Members["image/class/text"], crc32.ChecksumIEEE(text.([]byte)))
		height, err := d.FieldValue(int64(i), "image/height")
		require.NoError(t, err)
		require.Equal(t, int64(16), height)
		weight, err := d.FieldValue(int64(i), "weight")
		require.NoError(t, err)
		if i == 2 {
			require.True(t, math.IsNaN(weight.(float64)))
		} else {
			require.Equal(t, float64(i)/2, weight)
		}
	}
	require.Len(t, d.Fields(), 3, "the list of numbers is no field")
}

// framed are records as TensorFlow writes them.
func framed(records ...[]byte) (all []byte) {
	mask := func(b []byte) uint32 {
		crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		return (crc>>15 | crc<<17) + 0xa282ead8
	}
	for _, data := range records {
		length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
		all = append(all, length...)
		all = binary.LittleEndian.AppendUint32(all, mask(length))
		all = append(all, data...)
		all = binary.LittleEndian.AppendUint32(all, mask(data))
	}
	return all
}

func message(fields ...[]byte) (all []byte) {
	for i := 0; i < len(fields); i += 2 {
		all = protowire.AppendTag(all, protowire.Number(fields[i][0]), protowire.BytesType)
		all = protowire.AppendBytes(all, fields[i+1])
	}
	return all
}

// entry is one feature, whose list is given in wire format.
func entry(name string, kind byte, list []byte) []byte {
	return message([]byte{1}, []byte(name), []byte{2}, message([]byte{kind}, list))
}

func example(entries ...[]byte) []byte {
	var features []byte
	for _, e := range entries {
		features = append(features, message([]byte{1}, e)...)
	}
	return message([]byte{1}, features)
}

func TestNumbersOfAnExampleMayBePackedAndTheLastFeatureOfANameCounts(t *testing.T) {
	packed := message([]byte{1}, protowire.AppendVarint(nil, 300))
	plain := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 300)
	image := entry("image", 1, message([]byte{1}, []byte("bytes")))
	negative := int64(-5)
	dir := put(t, map[string][]byte{"a.tfrecord": framed(
		example(entry("label", 3, packed), image),
		example(image, entry("label", 3, plain)),
		example(entry("label", 3, message([]byte{1}, protowire.AppendVarint(nil, 7))), image, entry("label", 3, packed)),
		example(image, entry("label", 2, message([]byte{1}, binary.LittleEndian.AppendUint32(nil, math.Float32bits(4))))),
		example(image, entry("label", 3, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(negative)))),
		example(image, entry("label", 3, nil)),
	)})
	d := open(t, dir+"/a.tfrecord", Options{})
	require.Equal(t, []int64{300, 300, 300, 4, -5, -1}, labels(t, d))
	require.Equal(t, "a/0", keys(t, d)[0])
}

func TestErrorsInTFRecordFramesHaveRecordAndOffset(t *testing.T) {
	whole := fixture(t, "slim.tfrecord")
	second := 12 + int(binary.LittleEndian.Uint64(whole)) + 4
	file := filepath.Join(t.TempDir(), "a.tfrecord")
	for want, edit := range map[string]func([]byte) []byte{
		"the checksum of the record's length differs": func(b []byte) []byte { b[second] ^= 1; return b },
		"a record of ": func(b []byte) []byte { return b[:second+30] },
		"a record's frame of 5 bytes (expected at least 16)": func(b []byte) []byte { return b[:second+5] },
		"a record of 9223372036854775807 bytes": func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[second:], math.MaxInt64)
			repairTFRecord(b)
			return b
		},
	} {
		require.NoError(t, os.WriteFile(file, edit([]byte(string(whole))), 0o644))
		_, err := Open(file, Options{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, file+": record 1 at byte "+strconv.Itoa(second))
	}
}

func TestTFRecordsOfOtherMessagesThanExampleAreUnsupported(t *testing.T) {
	for want, record := range map[string][]byte{
		"the record is a tf.train.SequenceExample": message([]byte{2}, []byte("x")),
		"the record is no tf.train.Example":        {0x08, 0x01},
	} {
		_, err := Open(put(t, map[string][]byte{"a.tfrecord": framed(record)})+"/a.tfrecord", Options{})
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
	}
	_, err := Open(put(t, map[string][]byte{"a.tfrecord.gz": {0x1f, 0x8b, 8, 0}})+"/a.tfrecord.gz", Options{})
	require.ErrorContains(t, err, "the file is compressed as a whole")
}

func TestARecordThatIsNoExampleIsUnsupportedIfItsChecksumIsRightAndElseBad(t *testing.T) {
	photo := append([]byte("\xff\xd8\xff\xe0"), make([]byte, 100)...)
	file := put(t, map[string][]byte{"a.tfrecord": framed(photo)}) + "/a.tfrecord"
	_, err := Open(file, Options{})
	require.ErrorContains(t, err, "a.tfrecord: record 0 at byte 12: unsupported: the record is whole by its checksum, and no tf.train.Example")
	require.ErrorContains(t, err, "headrace.pack")
	damaged := framed(photo)
	damaged[50]++
	require.NoError(t, os.WriteFile(file, damaged, 0o644))
	_, err = Open(file, Options{})
	require.Equal(t, fault.KindBadFile, fault.KindOf(err))
}

// protobuf reads both lists as one, of two labels.
func TestAFeatureWithTwoListsIsAnError(t *testing.T) {
	lists := message([]byte{3}, []byte{0x08, 7}, []byte{3}, []byte{0x08, 2})
	twice := example(message([]byte{1}, []byte("label"), []byte{2}, lists))
	_, err := Open(put(t, map[string][]byte{"a.tfrecord": framed(twice)})+"/a.tfrecord", Options{})
	require.ErrorContains(t, err, "a tf.train.Feature with two lists of one kind")
}
