package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
)

// Content sums up rows for the manifest: fingerprint, counts, bytes. The fingerprint is a SHA-256 over what a training
// run sees of each sample, in order. Sizes of shards, file names on disk and times are not part of it. So packing
// again, or indexing the folder or containers instead, gives the same fingerprint. For fields that lie in containers it
// covers only their places.
type Content struct {
	hash   hash.Hash
	row    []byte
	counts counts
	bytes  int64
}

// NewContent returns a Content without rows.
func NewContent(fields []Field) *Content {
	c := &Content{hash: sha256.New()}
	for _, f := range fields {
		fmt.Fprintf(c.hash, "%q %s %s %v\n", f.Name, f.Type, f.DType, f.Shape)
	}
	return c
}

// Add adds the next row.
func (c *Content) Add(r *Row) {
	b := c.row[:0]
	// The length comes first, so that two neighbouring texts cannot be divided differently.
	text := func(s string) { b = append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...) }
	number := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	text(r.Key)
	number(uint64(r.Label))
	number(uint64(r.Length))
	number(uint64(r.CRC32C))
	for _, value := range r.Fields {
		switch v := value.(type) {
		case int64:
			number(uint64(v))
		case float64:
			number(math.Float64bits(v))
		case Extent:
			number(uint64(v.Offset))
			number(uint64(v.Length))
		case BlockExtent:
			for _, n := range [...]uint64{uint64(v.Offset), uint64(v.Length), uint64(v.Stored), uint64(v.Size), uint64(v.Inner), uint64(v.Codec), uint64(v.CRC32C)} {
				number(n)
			}
		case string:
			text(v)
		case []byte:
			text(string(v))
		case Array:
			for _, d := range v.Shape {
				number(uint64(d))
			}
			text(string(v.Data))
		}
	}
	c.row = b
	c.hash.Write(b)
	c.counts.add(r)
	c.bytes += r.Length
}

// Fingerprint returns the fingerprint of the rows so far.
func (c *Content) Fingerprint() string { return "content-" + hex.EncodeToString(c.hash.Sum(nil)[:16]) }

// Bytes returns the sum of lengths, Counts the number of samples by verdict, codec and so on.
func (c *Content) Bytes() int64                        { return c.bytes }
func (c *Content) Counts() map[string]map[string]int64 { return c.counts.byName() }

// counts are the numbers `headrace info` prints without reading the index.
type counts struct {
	verdict, codec, sampling, process, channels, orientation [256]int64
}

func (c *counts) add(r *Row) {
	c.verdict[r.Verdict]++
	c.codec[r.Codec]++
	c.sampling[r.Sampling]++
	c.process[r.Process]++
	c.channels[r.Channels]++
	c.orientation[r.Orientation]++
}

func (c *counts) byName() map[string]map[string]int64 {
	all := make(map[string]map[string]int64)
	for _, group := range []struct {
		name  string
		count *[256]int64
		namer func(uint8) string
	}{
		{"verdict", &c.verdict, func(v uint8) string { return Verdict(v).String() }},
		{"codec", &c.codec, CodecName},
		{"sampling", &c.sampling, SamplingName},
		{"process", &c.process, ProcessName},
		{"channels", &c.channels, func(v uint8) string { return fmt.Sprint(v) }},
		{"orientation", &c.orientation, func(v uint8) string { return fmt.Sprint(v) }},
	} {
		m := make(map[string]int64)
		for v, n := range group.count {
			if n > 0 {
				m[group.namer(uint8(v))] = n
			}
		}
		all[group.name] = m
	}
	return all
}
