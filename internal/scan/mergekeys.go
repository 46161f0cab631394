package scan

import (
	"bytes"
	"hash/maphash"
	"strconv"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
)

// uniqueKeys takes the containers' own keys, which are in the order of rows, if they are unique. A missing or repeated
// key becomes CONTAINER/KEY, and if that is not unique, CONTAINER/ROW.
func uniqueKeys(t *catalog.Table, lists ...*formats.Names) {
	if ascending(lists) {
		for _, keys := range lists {
			for i := range keys.Len() {
				t.Keys.AppendBytes(keys.Bytes(i))
			}
		}
		return
	}
	containers, distinct := make([]string, len(t.Shards)), make(map[string]bool, len(t.Shards))
	for i := range containers {
		containers[i] = formats.SampleKey(withoutWhole(t.Shards[i].Name)) // so that the keys do not depend on whether a shard is compressed
		distinct[containers[i]] = true
	}
	rows := make([]int64, len(t.Shards)) // number of rows of each container so far
	var key []byte
	numbered := func(shard int) []byte {
		key = append(append(key[:0], containers[shard]...), '/')
		return strconv.AppendInt(key, rows[shard], 10)
	}
	if noKeys(lists) && len(distinct) == len(containers) {
		// A row has no slash, so CONTAINER/ROW is unique. Counting keys would take a third of the time of a scan.
		for _, shard := range t.Shard {
			key = numbered(int(shard))
			t.Keys.AppendBytes(key)
			rows[shard]++
		}
		return
	}
	count := countKeys(lists, len(t.Shard))
	at := 0
	for _, keys := range lists {
		for i := range keys.Len() {
			own, shard := keys.Bytes(i), int(t.Shard[at])
			// All samples that share a key are renamed, so that no key depends on which sample came first.
			// An index needs unique keys of at most MaxNameBytes.
			if len(own) > 0 && len(own) <= formats.MaxNameBytes && count.of(own) == 1 {
				t.Keys.AppendBytes(own)
			} else {
				key = append(append(append(key[:0], containers[shard]...), '/'), own...)
				if len(own) == 0 || len(key) > formats.MaxNameBytes || own[len(own)-1] == '/' || count.of(key) > 0 {
					key = numbered(shard)
				}
				// CONTAINER/ROW may happen to be the key of another sample.
				for count.of(key) > 0 {
					key = append(key, '@')
				}
				count.add(key)
				t.Keys.AppendBytes(key)
			}
			rows[shard]++
			at++
		}
	}
}

// ascending is true if each sample has a valid key that is greater than the one before, as in most archives. Such keys
// are unique, and need not be counted.
func ascending(lists []*formats.Names) bool {
	var before []byte
	for _, keys := range lists {
		for i := range keys.Len() {
			own := keys.Bytes(i)
			if bytes.Compare(own, before) <= 0 || len(own) > formats.MaxNameBytes {
				return false
			}
			before = own
		}
	}
	return true
}

// noKeys is true if no sample has a key of its own.
func noKeys(lists []*formats.Names) bool {
	for _, keys := range lists {
		if !keys.AllEmpty() {
			return false
		}
	}
	return true
}

// keyCount has the number of samples of each key, by its hash of 128 bits: a collision by chance would need 2^64 keys.
type keyCount struct {
	seeds   [2]maphash.Seed // random, so that nobody can write a file with two keys of one hash
	samples map[[2]uint64]uint32
}

// countKeys counts keys over all containers, which have so many samples.
func countKeys(lists []*formats.Names, samples int) keyCount {
	c := keyCount{[2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, make(map[[2]uint64]uint32, samples)}
	for _, keys := range lists {
		for i := range keys.Len() {
			c.add(keys.Bytes(i))
		}
	}
	return c
}

func (c *keyCount) hash(key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(c.seeds[0], key), maphash.Bytes(c.seeds[1], key)}
}

func (c *keyCount) of(key []byte) uint32 { return c.samples[c.hash(key)] }
func (c *keyCount) add(key []byte)       { c.samples[c.hash(key)]++ }
