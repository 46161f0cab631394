package pack

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/mmap"
)

// checkOwn compares a container with the checksums that it has itself or that lie beside it. The index's checksum of a
// sample covers only its image.
// So these find changes in parts of a container without images: labels, columns, headers.
func (v *verifier) checkOwn(ctx context.Context, f io.ReaderAt, n int, size int64, at func(record, offset int64, expected, found any, text string)) {
	var err error
	switch v.dataset.Source().Format {
	case "tfrecord":
		err = checkTFRecord(ctx, f, size, at)
	case "parquet":
		err = checkParquet(f, size, at)
	case "mds":
		err = v.checkMDS(ctx, f, n, at)
	}
	path := v.dataset.ShardPath(n)
	if err != nil && ctx.Err() == nil {
		v.note(catalog.FormatError(path, err))
	}
}

// checkTFRecord reads every record. The walker itself compares the checksums of lengths.
// Images are read here a second time, because the check of each row has read them as well.
func checkTFRecord(ctx context.Context, f io.ReaderAt, size int64, at func(record, offset int64, expected, found any, text string)) error {
	w := formats.NewTFRecordWalker(f, size)
	buffer := make([]byte, readChunk)
	for record := int64(0); ctx.Err() == nil; record++ {
		r, err := w.Next()
		// EOF at the beginning of a record is the end; inside a record it is an error of the walker.
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		want, err := w.Checksum(r)
		if err != nil {
			return err
		}
		sum := crc32.New(castagnoli)
		if _, err := io.CopyBuffer(sum, io.NewSectionReader(f, r.Offset, r.Length), buffer); err != nil {
			return err
		}
		if found := sum.Sum32(); found != want {
			at(-1, r.Offset, fmt.Sprintf("%08x", want), fmt.Sprintf("%08x", found), fmt.Sprintf("the CRC-32C of record %d of the file", record))
		}
	}
	return nil
}

// checkParquet reads every page that has a checksum.
// Checksums of pages are optional (parquet.thrift, PageHeader.crc).
func checkParquet(f io.ReaderAt, size int64, at func(record, offset int64, expected, found any, text string)) error {
	p, err := formats.NewParquet(f, size, blocks.MostBytes)
	if err != nil {
		return err
	}
	return p.CheckPages(func(column string, offset int64, want, found uint32) {
		at(-1, offset, fmt.Sprintf("%08x", want), fmt.Sprintf("%08x", found), fmt.Sprintf("the CRC-32 of a page of the column %.80q", column))
	})
}

// mdsHashes are the known algorithms of MDSWriter's hashes= (streaming/base/hashing.py), by the names of hashlib and
// xxhash.
// Other algorithms that MDSWriter can write are ignored.
var mdsHashes = map[string]func() hash.Hash{
	"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
	"xxh64": func() hash.Hash { return xxhash.New() }, "xxh3_64": func() hash.Hash { return xxh3.New() },
	"xxh128": newXXH128, "xxh3_128": newXXH128,
}

// xxh128 is zeebo's hasher with the longer of its two sums.
// Python's xxhash has two names for this sum.
type xxh128 struct{ *xxh3.Hasher }

func newXXH128() hash.Hash { return xxh128{xxh3.New()} }

func (x xxh128) Sum(b []byte) []byte {
	sum := x.Sum128().Bytes()
	return append(b, sum[:]...)
}

func (x xxh128) Size() int { return 16 }

// maxMDSIndex limits an index.json that is read as a whole. With some hundred bytes a shard, it allows half a million.
const maxMDSIndex = 256 << 20

// besideShard opens another file in the folder of a shard.
// On disk it is the file beside it; in a store, an object with the same prefix.
func (v *verifier) besideShard(ctx context.Context, n int, name string) (io.ReadCloser, string, error) {
	if away := v.dataset.Shard(n); away != nil {
		data, shown, err := away.Beside(ctx, name, maxMDSIndex)
		return io.NopCloser(bytes.NewReader(data)), shown, err
	}
	path := filepath.Join(filepath.Dir(v.dataset.ShardPath(n)), name)
	file, err := mmap.OpenRegular(path)
	if err != nil {
		return nil, path, catalog.IOError(path, "cannot open it", err)
	}
	return file, path, nil
}

// checkMDS compares a shard with its hashes in the index.json beside it, if there are any.
// A shard that the index does not name has no hash to compare with.
func (v *verifier) checkMDS(ctx context.Context, f io.ReaderAt, n int, at func(record, offset int64, expected, found any, text string)) error {
	file, path, err := v.besideShard(ctx, n, "index.json")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	type part struct {
		Name   string            `json:"basename"`
		Hashes map[string]string `json:"hashes"`
	}
	var index struct {
		Shards []struct {
			Raw part  `json:"raw_data"`
			Zip *part `json:"zip_data"`
		} `json:"shards"`
	}
	if err := json.NewDecoder(io.LimitReader(file, maxMDSIndex)).Decode(&index); err != nil {
		return catalog.NewError(fault.KindBadFile, path, "no index of MDS: %v", err)
	}
	name := filepath.Base(v.dataset.ShardPath(n))
	for _, shard := range index.Shards {
		said := shard.Raw
		// streaming keeps hashes of a shard before and after compression, by the names of both files.
		if shard.Zip != nil && shard.Zip.Name == name {
			said = *shard.Zip
		}
		if said.Name == name {
			return checkHashes(ctx, f, said.Hashes, at)
		}
	}
	return nil
}

// checkHashes reads the file once for all its hashes of known algorithms.
// The names are sorted, so that findings come in the same order each time.
func checkHashes(ctx context.Context, f io.ReaderAt, hashes map[string]string, at func(record, offset int64, expected, found any, text string)) error {
	var names []string
	var sums []hash.Hash
	var all []io.Writer
	for name := range hashes {
		if made := mdsHashes[name]; made != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		sums = append(sums, mdsHashes[name]())
		all = append(all, sums[len(sums)-1])
	}
	// The file is read to its end, whatever length the index says.
	buffer, from := make([]byte, readChunk), io.NewSectionReader(f, 0, 1<<62)
	to := io.MultiWriter(all...)
	for len(sums) > 0 && ctx.Err() == nil {
		n, err := from.Read(buffer)
		if _, wrong := to.Write(buffer[:n]); wrong != nil {
			return wrong
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	for i, name := range names {
		if found := hex.EncodeToString(sums[i].Sum(nil)); found != hashes[name] && ctx.Err() == nil {
			at(-1, -1, hashes[name], found, fmt.Sprintf("the %s of the shard in index.json", name))
		}
	}
	return nil
}
