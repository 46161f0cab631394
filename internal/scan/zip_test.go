package scan

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
)

func TestAnImageFolderInAZipIsReadLikeOneInATar(t *testing.T) {
	d, other := open(t, "testdata/folders.zip", Options{}), open(t, "testdata/folders.tar", Options{})
	require.Equal(t, "zip", d.Source().Format)
	require.Equal(t, other.Classes(), d.Classes())
	require.Equal(t, keys(t, other), keys(t, d))
	require.Equal(t, labels(t, other), labels(t, d))
	require.Equal(t, contents(t, other), contents(t, d))
}

func TestDeflatedZipMembersAreReadAsBlocksAndHaveTheirChecksums(t *testing.T) {
	d, other := open(t, "testdata/deflated.zip", Options{}), open(t, "testdata/folders.zip", Options{})
	require.Equal(t, keys(t, other), keys(t, d))
	require.Equal(t, labels(t, other), labels(t, d))
	require.Equal(t, contents(t, other), contents(t, d))
	stored := 0
	for i := range d.Len() {
		s, err := d.Sample(i)
		require.NoError(t, err)
		frame, ok := d.Frame(i)
		require.True(t, ok)
		require.Equal(t, frame.CRC, contents(t, d)[i])
		if s.Block.Codec == blocks.None {
			stored++
		}
	}
	require.Equal(t, 1, stored, "one member is stored and the others are deflated")
}

func TestAZipMemberThatInflatesToAnotherSizeOrBeyondTheLimitIsRefused(t *testing.T) {
	data := zipped(t, zip.Deflate, "a/1.jpg", "a/2.jpg")
	directory := bytes.Index(data, []byte("PK\x01\x02"))
	file := put(t, map[string][]byte{"a.zip": data}) + "/a.zip"
	for size, want := range map[uint32]string{
		1:       "the block decodes to more than 1 bytes",
		1 << 20: "the block decodes to 7 bytes (expected 1048576)",
	} {
		binary.LittleEndian.PutUint32(data[directory+24:], size)
		require.NoError(t, os.WriteFile(file, data, 0o644))
		d := open(t, file, Options{})
		s, err := store.Open(d, store.Options{MaxRecordBytes: 1 << 20})
		require.NoError(t, err)
		defer s.Close()
		var buffer mmap.Buffer
		defer buffer.Free()
		at, err := d.Sample(0)
		require.NoError(t, err)
		_, err = s.Read(at, &buffer)
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.KindBadFile, fault.KindOf(err))
	}
	binary.LittleEndian.PutUint32(data[directory+24:], blocks.MostBytes+1)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	_, err := Open(file, Options{})
	require.ErrorContains(t, err, "268435457 once it is decoded (expected at most 268435456)")
	require.Equal(t, fault.KindLimit, fault.KindOf(err))
}

// addToBoth writes a file as a member of a zip and of a tar.
func addToBoth(t *testing.T, z *zip.Writer, w *tar.Writer, name, content string) {
	f, err := z.CreateHeader(&zip.FileHeader{Name: name})
	require.NoError(t, err)
	f.Write([]byte(content))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}))
	w.Write([]byte(content))
}

// tar --append and zipfile's mode "a" append a changed file after the old one.
func TestTheLastOfSeveralMembersOfOneNameIsTheImage(t *testing.T) {
	members := []string{"a/1.jpg", "a/2.jpg", "b/1.jpg", "./a/1.jpg", "a/1.jpg"}
	zipped, tarred := new(bytes.Buffer), new(bytes.Buffer)
	z, w := zip.NewWriter(zipped), tar.NewWriter(tarred)
	for i, name := range members {
		addToBoth(t, z, w, name, "\xff\xd8\xff"+strings.Repeat("x", i))
	}
	require.NoError(t, z.Close())
	require.NoError(t, w.Close())
	dir := put(t, map[string][]byte{"a.zip": zipped.Bytes(), "a.tar": tarred.Bytes()})
	for _, name := range []string{"a.zip", "a.tar"} {
		d := open(t, dir+"/"+name, Options{})
		require.Equal(t, []string{"a/1", "a/2", "b/1"}, keys(t, d))
		require.Equal(t, []int64{0, 0, 1}, labels(t, d))
		for i, want := range []int64{3 + 4, 3 + 1, 3 + 2} {
			s, err := d.Sample(int64(i))
			require.NoError(t, err)
			require.Equal(t, want, s.Length)
		}
		require.Equal(t, []string{`2 images are passed over, for the archive has another of their name behind them, which takes their place once it is extracted, as "a/1.jpg"`}, d.Warnings())
	}
}

// Info-ZIP's zip -y keeps symbolic links, and unzip makes them again.
func TestALinkInAZipIsTheImageThatItPointsTo(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	member := func(name, content string, mode fs.FileMode, method uint16) {
		header := &zip.FileHeader{Name: name, Method: method}
		header.SetMode(mode)
		f, err := w.CreateHeader(header)
		require.NoError(t, err)
		f.Write([]byte(content))
	}
	member("top/a/link.jpg", "../b/2.jpg", fs.ModeSymlink|0o777, zip.Deflate)
	member("top/a/1.jpg", "\xff\xd8\xffone", 0o644, zip.Store)
	member("top/b/2.jpg", "\xff\xd8\xfftwo two two two two", 0o644, zip.Deflate)
	member("top/b/again.jpg", "../a/link.jpg", fs.ModeSymlink|0o777, zip.Store)
	member("top/b/lost.jpg", "/etc/passwd.jpg", fs.ModeSymlink|0o777, zip.Store)
	require.NoError(t, w.Close())
	d := open(t, put(t, map[string][]byte{"a.zip": b.Bytes()})+"/a.zip", Options{})
	require.Equal(t, []string{"a/1", "a/link", "b/2", "b/again"}, keys(t, d))
	found := contents(t, d)
	require.Equal(t, found[2], found[1])
	require.Equal(t, found[2], found[3])
	require.NotEqual(t, found[2], found[0])
	require.Equal(t, []string{`a.zip: 1 images are links to no file of the archive and passed over, as "top/b/lost.jpg"`}, d.Warnings())
}

func TestBackslashesInAZipMadeByWindowsAreSlashes(t *testing.T) {
	const dos, unix = 0, 3 << 8
	made := func(by uint16, names ...string) *catalog.Dataset {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, name := range names {
			f, err := w.CreateHeader(&zip.FileHeader{Name: name, CreatorVersion: by})
			require.NoError(t, err)
			f.Write([]byte("\xff\xd8\xff"))
		}
		require.NoError(t, w.Close())
		return open(t, put(t, map[string][]byte{"a.zip": b.Bytes()})+"/a.zip", Options{})
	}
	d := made(dos, `top\b\1.jpg`, `top\a\2.jpg`, `top\a\._2.jpg`)
	require.Equal(t, []string{"a", "b"}, d.Classes())
	require.Equal(t, []int64{0, 1}, labels(t, d))
	require.Equal(t, []string{"a/2", "b/1"}, keys(t, d))
	// A name with a slash has its folders already, and names of files on Unix may contain a backslash.
	for _, d := range []*catalog.Dataset{made(dos, `a/x\1.jpg`, `b/x\1.jpg`), made(unix, `a/x\1.jpg`, `b/x\1.jpg`)} {
		require.Equal(t, []string{"a", "b"}, d.Classes())
		require.Equal(t, []string{`a/x\1`, `b/x\1`}, keys(t, d))
	}
	require.Empty(t, made(unix, `a\1.jpg`, `b\1.jpg`).Classes())
}

func zipped(t *testing.T, method uint16, names ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		require.NoError(t, err)
		_, err = f.Write([]byte(name))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestAZipThatCannotBeReadIsAnIOErrorAndNotABadFile(t *testing.T) {
	file := put(t, map[string][]byte{"a.zip": zipped(t, zip.Store, "a/1.jpg")}) + "/a.zip"
	f, err := os.Open(file)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	err = catalog.FormatError(file, scanZip(newPart(f, info.Size(), &Options{})))
	require.Equal(t, fault.KindIO, fault.KindOf(err))
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestAZipWithoutClassFoldersIsUnlabelledWithAWarning(t *testing.T) {
	d := open(t, put(t, map[string][]byte{"a.zip": zipped(t, zip.Store, "2.jpg", "1.jpg", "x/3.jpg")})+"/a.zip", Options{})
	require.Equal(t, []string{"1", "2", "x/3"}, keys(t, d))
	require.Equal(t, []int64{-1, -1, -1}, labels(t, d))
	require.Len(t, d.Warnings(), 1)
}

func TestUnsupportedCompressionAndEncryptionInAZipAreNamedInTheError(t *testing.T) {
	data := zipped(t, zip.Store, "a/1.jpg")
	data[bytes.Index(data, []byte("PK\x01\x02"))+10] = 14
	_, err := Open(put(t, map[string][]byte{"a.zip": data})+"/a.zip", Options{})
	require.ErrorContains(t, err, `the member "a/1.jpg" is compressed by method 14 (expected 0, stored, or 8, deflated; zip -0 stores)`)
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))

	data = zipped(t, zip.Store, "a/1.jpg")
	data[bytes.Index(data, []byte("PK\x01\x02"))+8] |= 1
	_, err = Open(put(t, map[string][]byte{"a.zip": data})+"/a.zip", Options{})
	require.ErrorContains(t, err, `the member "a/1.jpg" is encrypted`)
}

func TestANameInAZipThatIsNotUTF8IsReadInCodePage437(t *testing.T) {
	d := open(t, put(t, map[string][]byte{"a.zip": zipped(t, zip.Store, "caf\x82/1.jpg", "früh/2.jpg")})+"/a.zip", Options{})
	require.Equal(t, []string{"café", "früh"}, d.Classes(), "as Python's zipfile and unzip read them")
}

func TestASelfExtractingZipIsReadAndTheLastPartOfASplitOneIsRefused(t *testing.T) {
	archive := zipped(t, zip.Store, "a/1.jpg", "b/2.jpg")
	plain := open(t, put(t, map[string][]byte{"a.zip": archive})+"/a.zip", Options{})
	d := open(t, put(t, map[string][]byte{"a.exe": append([]byte("MZ and the program"), archive...)})+"/a.exe", Options{})
	require.Equal(t, keys(t, plain), keys(t, d))
	require.Equal(t, contents(t, plain), contents(t, d))

	last := append([]byte("what began in a file before"), archive...)
	binary.LittleEndian.PutUint16(last[len(last)-18:], 1) // the number of this part of the archive
	_, err := Open(put(t, map[string][]byte{"a.zip": last})+"/a.zip", Options{})
	require.ErrorContains(t, err, "the last part of a zip archive in several files is not read; zip -s 0 makes one file of them")
	require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
}

func TestFoldersThatHoldAllImagesOfAnArchiveAreNoClasses(t *testing.T) {
	for source, want := range map[string][]string{
		"data/imagenet/train/cat/1.jpg data/imagenet/train/dog/2.jpg": {"cat", "dog"},
		"top/cat/1.jpg top/dog/sub/2.jpg":                             {"cat", "dog"},
		"home/me/top/cat/1.jpg home/me/top/cat/sub/2.jpg":             {"cat"},
		"cat/1.jpg dog/2.jpg":                                         {"cat", "dog"},
		"top/train/1.jpg top/train/2.jpg":                             {"train"},
		"cat/1.jpg cat/2.jpg":                                         nil,
	} {
		names := strings.Fields(source)
		d := open(t, put(t, map[string][]byte{"a.zip": zipped(t, zip.Store, names...)})+"/a.zip", Options{})
		require.Equal(t, want, d.Classes(), source)
		var members []tar.Header
		for _, name := range names {
			members = append(members, tar.Header{Typeflag: tar.TypeReg, Name: name})
		}
		if want == nil { // in a tar these are samples of WebDataset
			continue
		}
		d = open(t, put(t, map[string][]byte{"a.tar": tarTree(t, members...)})+"/a.tar", Options{})
		require.Equal(t, want, d.Classes(), source)
	}
}

func TestSplitFoldersInAnArchiveAreNoClasses(t *testing.T) {
	names := []string{"top/train/cat/1.jpg", "top/train/dog/2.jpg", "top/val/cat/3.jpg", "top/val/dog/4.jpg", "top/test/5.jpg"}
	var members []tar.Header
	for _, name := range names {
		members = append(members, tar.Header{Typeflag: tar.TypeReg, Name: name})
	}
	dir := put(t, map[string][]byte{"a.zip": zipped(t, zip.Store, names...), "b.tar": tarTree(t, members...)})
	for _, file := range []string{dir + "/a.zip", dir + "/b.tar"} {
		_, err := Open(file, Options{})
		require.ErrorContains(t, err, `there are several splits: ["test" "train" "val"]; split= chooses one`)
		require.Equal(t, fault.KindArgument, fault.KindOf(err))
		_, err = Open(file, Options{Split: "dev"})
		require.ErrorContains(t, err, `split is "dev" (expected one of ["test" "train" "val"])`)
		d := open(t, file, Options{Split: "val"})
		require.Equal(t, []string{"cat/3", "dog/4"}, keys(t, d))
		require.Equal(t, []int64{0, 1}, labels(t, d))
		require.Equal(t, []uint32{crc32.ChecksumIEEE([]byte(names[2])), crc32.ChecksumIEEE([]byte(names[3]))}, contents(t, d))
		require.Equal(t, []int64{-1}, labels(t, open(t, file, Options{Split: "test"})))
	}
	file := put(t, map[string][]byte{"a.zip": zipped(t, zip.Store, "train/1.jpg", "bus/2.jpg", "train/more/3.jpg")}) + "/a.zip"
	require.Equal(t, []string{"bus", "train"}, open(t, file, Options{}).Classes(), "train is a class here")
	for _, file := range []string{file, "testdata/webdataset.tar"} {
		_, err := Open(file, Options{Split: "val"})
		require.ErrorContains(t, err, `split is "val" (expected none, for the names of neither files nor folders tell splits apart)`)
		require.Equal(t, fault.KindArgument, fault.KindOf(err))
	}
}
