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
	// An index lies in the cache in parts of this size, for which even the smallest cache has room.
	indexPart = disk.LeastBytes / 4
	// An index takes at most this share of a cache. A larger index is fetched whenever it is opened.
	indexShare = 8
)

// keptIndex reads an index through a cache on disk.
type keptIndex struct {
	user     *disk.User
	object   *remote.Object
	manifest *Manifest
	identity string
}

// keepIndex returns nil if there is no cache for the index.
func keepIndex(object *remote.Object, m *Manifest, o Options) *keptIndex {
	if o.Cache == nil || m.Index.Size > o.CacheBytes/indexShare {
		return nil
	}
	// All its checksums together stand for the version.
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

// read fills to with the index. What the store gave may not be the index, and must not be kept then. So the whole index
// is compared with its checksums. If it fails, it is read again past the cache, and the code that opens it reports what
// is wrong.
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
	// Parts have the same bounds wherever a piece begins, so their keys are the same for all readers.
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

// parts returns the parts of a piece that begins at byte `at`.
func (k *keptIndex) parts(to []byte, at int64) (list []disk.Part) {
	for from := int64(0); from < int64(len(to)); from += indexPart {
		one := to[from:min(from+indexPart, int64(len(to)))]
		list = append(list, disk.Part{Key: disk.KeyOf(k.identity, at+from, int64(len(one))), Sample: disk.Whole, Next: disk.Never, Bytes: one})
	}
	return list
}

// sound is true if the bytes of an index have the checksums of its manifest.
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
