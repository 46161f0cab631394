package scan

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/mmap"
)

// kind is the kind of a file by its first bytes. If it is not read, refused says why, and what to do.
// That is better than an unknown kind: the user learns what the file is and how it becomes readable.
type kind struct {
	name    string
	refused string
	beside  bool // a refused file that may lie beside containers, and is ignored there
	blank   bool // the file has no bytes, and its name does not say that it may have none
}

// kindOf finds the kind of a file by its first bytes. An unknown kind has no name.
// folder keeps the index of LitData's chunks, because some chunks are known only by it; nil: it is not asked.
func kindOf(path string, folder *litFolder) (kind, error) {
	f, err := mmap.OpenRegular(path)
	if err != nil {
		return kind{}, catalog.IOError(path, "cannot open it", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return kind{}, catalog.IOError(path, "cannot look at it", err)
	}
	if info.Size() == 0 {
		return kindOfBlank(path), nil
	}
	return kindOfFile(path, f, info.Size(), folder)
}

// kindOfFile is kindOf for an open file with at least one byte.
// Chunks of LitData and shards of MDS have no magic, so for them it reads more than the first bytes.
func kindOfFile(path string, f io.ReaderAt, size int64, folder *litFolder) (kind, error) {
	head := make([]byte, formats.TarBlock)
	n, err := f.ReadAt(head, 0)
	if n == 0 && err != nil && !errors.Is(err, io.EOF) { // without bytes no kind can be excluded
		return kind{}, catalog.IOError(path, "cannot read it", err)
	}
	// This comes before the first bytes: a chunk begins with the number of its items, which may look like anything.
	chunk := formats.IsLitData(f, size)
	if !chunk && folder != nil {
		chunk, _ = folder.names(path) // an index that is damaged or another program's names nothing
	}
	if chunk {
		return kind{name: "litdata"}, nil
	}
	return kindOfBytes(path, head[:n], f, size), nil
}

// kindOfBlank returns the kind of a file without bytes. TFRecord and RecordIO files hold nothing but records, so
// without a record they are empty. They have no magic either, so the name decides; for a name that says nothing, such
// as TF-Slim's train-00000-of-00010, format= and the other files decide (oneKind).
// Other formats have a header, so an empty file is a damaged one.
func kindOfBlank(path string) kind {
	switch name := filepath.Base(path); {
	case strings.Contains(strings.ToLower(name), "tfrecord"):
		return kind{name: "tfrecord"}
	case filepath.Ext(name) == ".rec":
		return kind{name: "recordio"}
	}
	return kind{blank: true}
}

// kindOfBytes returns the kind of a container of size bytes that begins with head.
func kindOfBytes(path string, head []byte, r io.ReaderAt, size int64) kind {
	// This is only a first guess: a format without a magic may happen to begin like another one.
	found := kindOfHead(head)
	// MDS has no magic, and its first bytes are a count, which may look like anything. So MDS comes first if its
	// configuration follows.
	if codec := formats.WholeCodec(path, head); codec != 0 && formats.IsWholeMDS(codec, r, size) ||
		(found.name == "" || found.refused != "") && formats.IsMDS(r, size) {
		return kind{name: "mds"}
	}
	// This format begins with a length, which may look like a header of zlib.
	if (found.name == "" || found.refused != "") && formats.IsEarlyArrow(r, size) {
		return kind{name: "arrow"}
	}
	// The weakest signs come last.
	if found.name == "" && formats.IsBeton(r, size) {
		return kind{name: "beton"}
	}
	// Zeros alone mean nothing, so here the name has to decide as well.
	if found.name == "" && filepath.Ext(path) == ".tar" && formats.IsEmptyTar(head, size) {
		return kind{name: "tar"}
	}
	// A block of snappy does not show what it holds before it is decoded.
	// So the file's extension decides. If it is wrong, the walker reports that.
	if found.name == "" && withoutWhole(path) != path {
		return kind{name: "mds"}
	}
	if found.name == "" {
		// A zip may have anything before its members (APPNOTE.TXT 4.1.9), as self-extracting ones do, so it is recognised by
		// its end.
		switch ends, inParts := formats.EndsAsZip(r, size); {
		case inParts:
			return kind{name: "zip", refused: "the last part of a zip archive in several files is not read; zip -s 0 makes one file of them"}
		case ends:
			return kind{name: "zip"}
		}
	}
	if found.name == "" {
		found = kindOfUnread(string(head))
	}
	return found
}

// kindOfHead uses the first bytes alone. A long or checked sign comes before a short one that other files may have by
// chance.
func kindOfHead(head []byte) kind {
	text := string(head)
	switch {
	// Checksums come first, because they prove more than a few letters.
	case formats.IsTar(head):
		return kind{name: "tar"}
	case formats.IsLMDB(head):
		return kind{name: "lmdb"}
	case formats.IsLaterLMDB(head):
		return kind{name: "lmdb 1.0", refused: "this is an LMDB of data format 2, that of LMDB 1.0 (expected 1, that of LMDB 0.9); mdb_dump of the one and mdb_load of the other convert it"}
	case formats.IsTFRecord(head):
		return kind{name: "tfrecord"}
	// RFC 1952 and 1950: zlib's header is a multiple of 31.
	case strings.HasPrefix(text, "\x1f\x8b"), len(head) > 1 && head[0] == 0x78 && (int(head[0])<<8|int(head[1]))%31 == 0:
		return kind{name: "gzip or zlib", refused: "the file is compressed as a whole, which leaves no way to one sample; decompress it first"}
	case formats.IsZstd(head):
		return kind{name: "zstd", refused: wholly("zstd")}
	case formats.IsParquet(head):
		return kind{name: "parquet"}
	case formats.IsArrow(head):
		return kind{name: "arrow"}
	case strings.HasPrefix(text, zipMagic[0]), strings.HasPrefix(text, zipMagic[1]):
		return kind{name: "zip"}
	case formats.IsRecordIO(head):
		return kind{name: "recordio"}
	}
	return kind{}
}

// mayBeBlank has the kinds of which a file without bytes is one without records.
var mayBeBlank = map[string]bool{"tfrecord": true, "recordio": true}

// oneKind returns the kind of all files, and an error if they differ. files is for messages.
// If a dataset has two kinds, a pattern mostly matches too much.
func oneKind(files []string, o *Options, kindOf func(int) (kind, error)) (kind, error) {
	// format= states what the content is. It does not force a walker on the file, because each walker reads only its own
	// kind.
	wanted := kindOfFormat(o.Format)
	var first kind
	known, blank := -1, -1 // the first file of a known kind, and the first without bytes
	for i, file := range files {
		found, err := kindOf(i)
		if err != nil {
			return kind{}, err
		}
		switch {
		case found.blank:
			if blank < 0 {
				blank = i
			}
			continue
		case found.name == "":
			return kind{}, catalog.NewError(fault.KindUnsupported, file, "this is neither a folder nor a container that is known (expected one of %s)%s", strings.Join(Formats, ", "), listInstead(file))
		case found.refused != "":
			return kind{}, catalog.NewError(fault.KindUnsupported, file, "%s", found.refused)
		case known < 0:
			first, known = found, i
		case found.name != first.name:
			return kind{}, catalog.NewError(fault.KindArgument, file, "%s", fault.Differs("the files are of several kinds", first.name+", as "+files[known], found.name))
		}
		if wanted != "" && wanted != found.name {
			return kind{}, catalog.NewError(fault.KindBadFile, file, "%s", fault.Differs("the file is of another kind than format says", wanted, found.name))
		}
	}
	if known < 0 {
		first = kind{name: wanted}
	}
	if blank >= 0 && !mayBeBlank[first.name] {
		wrong := catalog.NewError(fault.KindTruncated, files[blank], "the file has no bytes")
		wrong.Offset = 0
		return kind{}, wrong
	}
	return first, nil
}

// listInstead suggests by the file's name what to do with a list of files or an image, because a text shows no more
// about itself.
func listInstead(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".csv", ".jsonl", ".ndjson":
		return "; headrace.pack packs the files that it lists"
	case ".tsv", ".json":
		return "; a list of files is for headrace.pack, as CSV, JSON lines or Parquet"
	case ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm":
		return "; single images are for headrace.Dataset.from_files, or headrace.functional.decode"
	}
	return ""
}

// kindOfFormat returns the kind for a format: webdataset and tar are two ways to read samples of the same container.
func kindOfFormat(format string) string {
	if format == "webdataset" {
		return "tar"
	}
	return format
}
