package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"

	disk "github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/remote"
)

const (
	// An index lies in the cache in parts of so many bytes, which the smallest cache has room for.
	indexPart = disk.LeastBytes / 4
	// indexShare of a cache at most is an index: what is larger is fetched whenever it is opened.
	indexShare = 8
)

// keptIndex reads an index through a cache on disk.
type keptIndex struct {
	user     *disk.User
	object   *remote.Object
	manifest *Manifest
	identity string
}

// keepIndex is nil where there is no cache for it.
func keepIndex(object *remote.Object, m *Manifest, o Options) *keptIndex {
	if o.Cache == nil || m.Index.Size > o.CacheBytes/indexShare {
		return nil
	}
	// All its checksums stand for the version.
	text, err := json.Marshal(m.Index)
	if err != nil {
		return nil
	}
	user := o.Cache.Join(disk.Plan{Bytes: o.CacheBytes, Dataset: m.Fingerprint})
	if user == nil {
		return nil
	}
	return &keptIndex{user, object, m, fmt.Sprintf("%s index %x", object.Key(), sha256.Sum256(text))}
}

// read fills to with the index. What the store gave may be no index, and is not to be kept then: the index is
// compared with its checksums whole, and what fails that is read anew, past the cache, for who opens it to judge.
func (k *keptIndex) read(ctx context.Context, to []byte) error {
	if err := readPieces(ctx, to, k.piece); err != nil {
		return err
	}
	if k.manifest.sound(to) {
		return nil
	}
	k.user.Forget(k.parts(to, 0))
	return readPieces(ctx, to, k.object.ReadAt)
}

func (k *keptIndex) piece(ctx context.Context, to []byte, at int64) error {
	// A part is as long wherever a piece begins, so that its key is the same for all who read.
	list := k.parts(to, at)
	k.user.Read(ctx, list, func(ctx context.Context, from, until int) error {
		begin, end := int64(from)*indexPart, min(int64(until)*indexPart, int64(len(to)))
		return k.object.ReadAt(ctx, to[begin:end], at+begin)
	})
	for _, p := range list {
		if p.Err != nil {
			return p.Err
		}
	}
	return nil
}

// parts are those of a piece that begins at a byte.
func (k *keptIndex) parts(to []byte, at int64) (list []disk.Part) {
	for from := int64(0); from < int64(len(to)); from += indexPart {
		one := to[from:min(from+indexPart, int64(len(to)))]
		list = append(list, disk.Part{Key: disk.KeyOf(k.identity, at+from, int64(len(one))), Sample: disk.Whole, Next: disk.Never, Bytes: one})
	}
	return list
}

// sound is true of the bytes of an index that have the checksums of its manifest.
func (m *Manifest) sound(index []byte) bool {
	x := &m.Index
	is := func(from, to int64, want string) bool {
		crc, err := parseCRC(want)
		return err == nil && crc32.Checksum(index[from:to], castagnoli) == crc
	}
	last := x.Batches[len(x.Batches)-1]
	if !is(0, x.Batches[0].Offset, x.Head) || !is(last.Offset+last.Length, x.Size, x.Tail) {
		return false
	}
	for _, b := range x.Batches {
		if !is(b.Offset, b.Offset+b.Length, b.CRC32C) {
			return false
		}
	}
	return true
}
