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

// kind is what a file's first bytes say it is. One that is not read has a sentence instead of a walker.
// A kind that is refused is better than none: the sentence says what the file is and how it becomes readable.
type kind struct {
	name    string
	refused string
	beside  bool // one that is refused may lie beside containers, and is passed over there
	blank   bool // the file has no bytes, and is of no kind that may have none
}

// kindOf looks at a file's first bytes. A kind without a name is none that is known.
// folder remembers the index of LitData's chunks, some of which are known by that alone; nil where that is not asked.
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

// kindOfFile is kindOf for an open file of so many bytes, one at least.
// Chunks of LitData and shards of MDS have no magic, so for them it looks further than the first bytes.
func kindOfFile(path string, f io.ReaderAt, size int64, folder *litFolder) (kind, error) {
	head := make([]byte, formats.TarBlock)
	n, err := f.ReadAt(head, 0)
	if n == 0 && err != nil && !errors.Is(err, io.EOF) { // of what cannot be read no kind can be denied
		return kind{}, catalog.IOError(path, "cannot read it", err)
	}
	// Before the first bytes, which are the number of items and may be any.
	chunk := formats.IsLitData(f, size)
	if !chunk && folder != nil {
		chunk, _ = folder.names(path) // an index that is of something else, or damaged, names nothing
	}
	if chunk {
		return kind{name: "litdata"}, nil
	}
	return kindOfBytes(path, head[:n], f, size), nil
}

// kindOfBlank is the kind of a file without bytes. TFRecords and RecordIO have nothing but records, so those that
// hold none are such files; they have no magic either, and are known by their names.
// Other formats have a head, so that a file without bytes is a damaged one.
func kindOfBlank(path string) kind {
	switch name := filepath.Base(path); {
	case strings.Contains(strings.ToLower(name), "tfrecord"):
		return kind{name: "tfrecord"}
	case filepath.Ext(name) == ".rec":
		return kind{name: "recordio"}
	}
	return kind{blank: true}
}

// kindOfBytes is the kind of a container of so many bytes that begins with head.
func kindOfBytes(path string, head []byte, r io.ReaderAt, size int64) kind {
	// Only a first answer: formats without a magic may begin by chance with that of another one.
	found := kindOfHead(head)
	// MDS has no magic and its first bytes are a count, which may be those of anything: so it goes before, where what
	// follows is its configuration.
	if codec := formats.WholeCodec(path, head); codec != 0 && formats.IsWholeMDS(codec, r, size) ||
		(found.name == "" || found.refused != "") && formats.IsMDS(r, size) {
		return kind{name: "mds"}
	}
	// A length begins it, which may look like zlib's head.
	if (found.name == "" || found.refused != "") && formats.IsEarlyArrow(r, size) {
		return kind{name: "arrow"}
	}
	// The weakest signs come last.
	if found.name == "" && formats.IsBeton(r, size) {
		return kind{name: "beton"}
	}
	// Zeros alone say nothing, so here the name has to.
	if found.name == "" && filepath.Ext(path) == ".tar" && formats.IsEmptyTar(head, size) {
		return kind{name: "tar"}
	}
	// A block of snappy shows nothing of what it holds before it is decoded.
	// So its ending decides; where that is wrong the walker says so.
	if found.name == "" && withoutWhole(path) != path {
		return kind{name: "mds"}
	}
	if found.name == "" {
		// A zip may have anything before its members (APPNOTE.TXT 4.1.9), as self-extracting ones do, and is known by
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

// kindOfHead goes by the first bytes alone, in an order: a longer or a checked sign goes before one that other files have
// by chance.
func kindOfHead(head []byte) kind {
	text := string(head)
	switch {
	// By checksums first, which say more than a few letters do.
	case formats.IsTar(head):
		return kind{name: "tar"}
	case formats.IsLMDB(head):
		return kind{name: "lmdb"}
	case formats.IsLaterLMDB(head):
		return kind{name: "lmdb 1.0", refused: "this is an LMDB of data format 2, that of LMDB 1.0 (expected 1, that of LMDB 0.9); mdb_dump of the one and mdb_load of the other convert it"}
	case formats.IsTFRecord(head):
		return kind{name: "tfrecord"}
	// RFC 1952 and 1950: a zlib head is a multiple of 31.
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

// oneKind is the kind that all files are of, whose names are for texts.
// A dataset of two kinds is nearly always a pattern that stands for too much.
func oneKind(files []string, o *Options, kindOf func(int) (kind, error)) (first kind, err error) {
	for i, file := range files {
		found, err := kindOf(i)
		if err != nil {
			return kind{}, err
		}
		switch {
		case found.blank:
			blank := catalog.NewError(fault.KindTruncated, file, "the file has no bytes")
			blank.Offset = 0
			return kind{}, blank
		case found.name == "":
			return kind{}, catalog.NewError(fault.KindUnsupported, file, "this is neither a folder nor a container that is known (expected one of %s)%s", strings.Join(Formats, ", "), listInstead(file))
		case found.refused != "":
			return kind{}, catalog.NewError(fault.KindUnsupported, file, "%s", found.refused)
		case i == 0:
			first = found
		case found.name != first.name:
			return kind{}, catalog.NewError(fault.KindArgument, file, "%s", fault.Differs("the files are of several kinds", first.name+", as "+files[0], found.name))
		}
		// format= is a claim about the content, and not an order to read it so: every walker reads its own bytes
		// alone.
		if wanted := kindOfFormat(o.Format); wanted != "" && wanted != found.name {
			return kind{}, catalog.NewError(fault.KindBadFile, file, "%s", fault.Differs("the file is of another kind than format says", wanted, found.name))
		}
	}
	return first, nil
}

// listInstead says what a list of files is for, by its name: a text shows no more of what it is.
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

// webdataset and tar are two ways to read the samples of one container.
func kindOfFormat(format string) string {
	if format == "webdataset" {
		return "tar"
	}
	return format
}
