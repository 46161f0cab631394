package catalog

import (
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/mmap"
)

// So many bytes at the beginning and at the end stand for a container whose time has changed. They include the two
// pages that LMDB writes with every transaction.
const endBytes = 64 << 10

// IndexAgain is the end of a sentence about a file that is not the indexed one; it says what to do.
const IndexAgain = "; run headrace index again"

// EndsOf returns the checksum of a container's first and last bytes. It tells a copied or touched file from another
// file of the same size.
func EndsOf(r io.ReaderAt, size int64) (uint32, error) {
	b := make([]byte, min(size, endBytes))
	crc := uint32(0)
	// A container with fewer than twice as many bytes is read whole.
	for _, at := range []int64{0, size - int64(len(b))} {
		if _, err := r.ReadAt(b, at); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, b)
	}
	return crc, nil
}

// ShardOf describes an open container.
func ShardOf(name string, f *os.File) (ShardInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return ShardInfo{}, err
	}
	shard := ShardInfo{Name: name, Size: info.Size(), MTimeNs: info.ModTime().UnixNano()}
	ends, err := EndsOf(f, shard.Size)
	if err != nil {
		return shard, err
	}
	shard.Ends = hexCRC(ends)
	shard.Txn, err = formats.LMDBTransaction(f, shard.Size)
	return shard, err
}

// Check accepts a container with another time than when it was indexed if its ends are the same. An LMDB with another
// last transaction is refused whatever its time, because its pages may have been reused.
func (s *ShardInfo) Check(path string, record int64) error {
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return IOError(path, "cannot open the container", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return IOError(path, "cannot look at the container", err)
	}
	// This comes before the time is compared: with MDB_WRITEMAP LMDB writes through a mapping, and the system may
	// update the file's time late (mmap(2)).
	if s.Txn != 0 {
		txn, err := formats.LMDBTransaction(f, info.Size())
		if err != nil {
			return IOError(path, "cannot read the container", err)
		}
		if txn != s.Txn {
			return &Error{Kind: fault.KindBadFile, File: path, Record: record, Offset: -1,
				Text: fault.Differs("the LMDB was written to since it was indexed, its last transaction is another", s.Txn, txn) + IndexAgain}
		}
	}
	if info.ModTime().UnixNano() == s.MTimeNs {
		return nil
	}
	found, err := ShardOf(s.Name, f)
	if err != nil {
		return IOError(path, "cannot read the container", err)
	}
	if found.Ends != s.Ends || found.Size != s.Size {
		return &Error{Kind: fault.KindChecksum, File: path, Record: record, Offset: -1, Text: fault.Differs(
			"the container has another time than when it was indexed, and its first and last bytes have another checksum", s.Ends, found.Ends) + IndexAgain}
	}
	return nil
}

// ContainersBelow returns the folder where the names of containers begin, for a manifest in dir.
func (m *Manifest) ContainersBelow(dir string) string {
	root := filepath.FromSlash(string(m.Root))
	if filepath.IsAbs(root) || remote.IsURL(root) {
		return root
	}
	return filepath.Join(dir, root)
}

// CommonRoot returns the folder that contains all files, and their names in it with slashes. Relative and absolute
// paths together, and some paths that go up, have such a folder only as absolute paths. A name that leads out of the
// root would be joined into the path of another file.
func CommonRoot(files []string) (root string, names []string) {
	root, names, all := rootOf(files)
	if all {
		return root, names
	}
	absolute := make([]string, len(files))
	for i, file := range files {
		var err error
		if absolute[i], err = filepath.Abs(file); err != nil { // the working directory is gone
			return root, names
		}
	}
	root, names, _ = rootOf(absolute)
	return root, names
}

// rootOf goes up from the first file's folder. all is false if that leads to no folder that contains all files.
func rootOf(files []string) (root string, names []string, all bool) {
	root, all = filepath.Dir(files[0]), true
	for _, file := range files[1:] {
		for !isBelow(root, file) {
			up := filepath.Dir(root)
			if up == root {
				break
			}
			root = up
		}
	}
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			name = file
		}
		all = all && err == nil && filepath.IsLocal(name)
		names = append(names, filepath.ToSlash(name))
	}
	return root, names, all
}

func isBelow(root, file string) bool {
	name, err := filepath.Rel(root, file)
	return err == nil && filepath.IsLocal(name)
}
