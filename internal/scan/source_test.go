package scan

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

func TestBracesExpandAsAShellDoes(t *testing.T) {
	for text, want := range map[string]string{
		"a-{0..2}":        "a-0 a-1 a-2",
		"{08..11}.tar":    "08.tar 09.tar 10.tar 11.tar",
		"{3..1}":          "3 2 1",
		"{a,b{1,2}}c":     "ac b1c b2c",
		"{x}{0..1}":       "{x}0 {x}1",
		"{a..c}":          "{a..c}",
		"{0..10..5}":      "0 5 10",
		"{00..5..2}":      "00 02 04",
		"{10..1..-4}":     "10 6 2",
		"{1..2..0}":       "1 2",
		"{1..2..x}":       "{1..2..x}",
		"{1..2..}":        "{1..2..}",
		"no braces":       "no braces",
		"{1..2}/{00..1}":  "1/00 1/01 2/00 2/01",
		"{open":           "{open",
		"x{y{1,2}":        "x{y1 x{y2",
		"{a,b{c,d}{1..2}": "{a,bc1 {a,bc2 {a,bd1 {a,bd2",
		"{{{0..1}":        "{{0 {{1",
		"a}{0..1}{":       "a}0{ a}1{",
		"{y{1,2}}{3,4}":   "{y1}3 {y1}4 {y2}3 {y2}4",
	} {
		found, err := braces(text)
		require.NoError(t, err)
		if text == "no braces" {
			require.Equal(t, []string{want}, found)
			continue
		}
		require.Equal(t, strings.Fields(want), found, text)
	}
	for _, text := range []string{"{0..99999999}", "{0..9999}{0..9999}", "{0..18446744073709551615}{0..1048576}", "{0..99999999..2}"} {
		_, err := braces(text)
		require.ErrorContains(t, err, "stand for more than 1048576 files", text)
	}
}

func TestAnEmptyClassOfAnImageFolderIsAnErrorEvenBesideAContainer(t *testing.T) {
	dir := put(t, map[string][]byte{"a/1.jpg": {1}, "labels.tar": fixture(t, "webdataset.tar")})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "b"), 0o755))
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "found no valid file for the classes b")
	require.Equal(t, fault.KindEmpty, fault.KindOf(err))
	require.Equal(t, catalog.Listed, open(t, put(t, map[string][]byte{"a/1.jpg": {1}, "labels.tar": fixture(t, "webdataset.tar")}), Options{}).Kind())
}

func TestAContainerInAFolderThatCannotBeOpenedIsAnErrorAndNotSkipped(t *testing.T) {
	dir := put(t, map[string][]byte{"a.tar": fixture(t, "webdataset.tar")})
	rows := open(t, dir, Options{}).Len()
	require.NoError(t, os.Symlink("nowhere", dir+"/README"))
	require.Equal(t, rows, open(t, dir, Options{}).Len(), "a file with another extension is no container")
	require.NoError(t, unix.Mkfifo(dir+"/fifo.tar", 0o600))
	require.Equal(t, rows, open(t, dir, Options{}).Len(), "what is not a file is no container either")
	require.NoError(t, os.Symlink("nowhere", dir+"/b.tar"))
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "b.tar: cannot open it: no such file or directory")
	require.Equal(t, fault.KindIO, fault.KindOf(err))
}

func TestAFileInAFolderThatIsCalledLikeAContainerAndIsNoneIsAnErrorAndNotSkipped(t *testing.T) {
	page, tars := []byte("<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>"), fixture(t, "webdataset.tar")
	for name, other := range map[string]string{
		"b.tar":                     "a.tar",
		"train-00001-of-00002":      "train-00000-of-00002",
		"a.tfrecord-00001-of-00002": "a.tfrecord-00000-of-00002",
	} {
		files := map[string][]byte{other: tars, "README": page, "checksums.md5": page}
		require.NotZero(t, open(t, put(t, files), Options{}).Len(), "files that are called otherwise are no containers")
		for _, damaged := range [][]byte{page, page[:6]} {
			files[name] = damaged
			_, err := Open(put(t, files), Options{})
			require.ErrorContains(t, err, name+": unsupported: this is neither a folder nor a container that is known")
		}
	}
}

func TestAFileThatCannotBeReadIsAnIOErrorAndNotOfUnknownKind(t *testing.T) {
	f, err := os.Open("testdata/webdataset.tar")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = kindOfFile(f.Name(), f, 10_240, nil)
	require.ErrorContains(t, err, "testdata/webdataset.tar: cannot read it")
	require.Equal(t, fault.KindIO, fault.KindOf(err))
}

func TestFilesOfSeveralKindsAreRefused(t *testing.T) {
	dir := put(t, map[string][]byte{"a.tar": fixture(t, "webdataset.tar"), "b.tfrecord": fixture(t, "slim.tfrecord"), "README": []byte("x"), "c.jpg": {1}})
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, "b.tfrecord: the files are of several kinds (expected tar, as")
	_, err = Open(dir+"/a.tar", Options{Format: "tfrecord"})
	require.ErrorContains(t, err, "the file is of another kind than format says (expected tfrecord, found tar)")
	_, err = Open(dir+"/README", Options{})
	require.ErrorContains(t, err, "this is neither a folder nor a container that is known")
	_, err = Open(dir+"/nope-*", Options{})
	require.Equal(t, fault.KindIO, fault.KindOf(err))
}

func TestNoFilesAndAnUnknownFormatAreRefused(t *testing.T) {
	_, err := OpenFiles(nil, Options{})
	require.Equal(t, fault.KindEmpty, fault.KindOf(err))
	_, err = Open("x", Options{Format: "pickle"})
	require.ErrorContains(t, err, `format is "pickle" (expected one of`)
}

func TestTheErrorOfAnUnsupportedContainerNamesItsFormatAndARemedy(t *testing.T) {
	for want, head := range map[string]string{
		"ArrayRecord (Riegeli)": "\x83\xaf\x70\xd1\x0d\x88\x4a\x3f\x00\x00",
		"SQLite is not read; a dataset of files or bytes that Python reads can be packed": "SQLite format 3\x00",
		"a pickle can run any code when it is read, so it never is":                       "\x80\x04\x95\x00",
		"Avro is not read": "Obj\x01", "ORC is not read": "ORC\x0a", "Feather of version 1": "FEA1",
		"compressed by bzip2 as a whole": "BZh91AY", "compressed by xz as a whole": "\xfd7zXZ\x00", "7z compresses many files": "7z\xbc\xaf\x27\x1c", "RAR is not read": "Rar!\x1a\x07\x01",
	} {
		dir := put(t, map[string][]byte{"a.bin": []byte(head)})
		for _, source := range []string{dir, dir + "/a.bin"} {
			_, err := Open(source, Options{})
			require.ErrorContains(t, err, want)
			require.Equal(t, fault.KindUnsupported, fault.KindOf(err))
		}
	}
	dir := put(t, map[string][]byte{"a.tar": fixture(t, "webdataset.tar"), "notes.pkl": []byte("\x80\x04\x95"), "meta.db": []byte("SQLite format 3\x00")})
	require.Equal(t, int64(5), open(t, dir, Options{}).Len(),
		"files that programs keep beside their containers are skipped")
}

func TestTheErrorOfUnsupportedContentInAContainerNamesARemedy(t *testing.T) {
	sequence := framed(message([]byte{2}, []byte("x")))
	several := framed(example(entry("image", 1, message([]byte{1}, []byte("one"), []byte{1}, []byte("two")))))
	for name, data := range map[string][]byte{"a.tfrecord": sequence, "b.tfrecord": several, "shard.00000.mds": mdsShard(t, "pkl", []byte("x")),
		"a.tar": tarTree(t, tar.Header{Typeflag: tar.TypeReg, Name: "0.jpg"}, tar.Header{Typeflag: tar.TypeReg, Name: "0.pickle"})} {
		o := Options{}
		if name == "a.tar" {
			o.Label = "pickle"
		}
		_, err := Open(put(t, map[string][]byte{name: data})+"/"+name, o)
		require.Equal(t, fault.KindUnsupported, fault.KindOf(err), name)
		require.ErrorContains(t, err, packInstead, name)
		require.Equal(t, 1, strings.Count(err.Error(), "headrace.pack"), name)
	}
	_, err := Open("testdata/litdata/classic", Options{Label: "pickled"})
	require.ErrorContains(t, err, packInstead)
}

// Such a file is the list of Hugging Face's ImageFolder, and not a container of its folder unless it has images itself.
func TestTheErrorOfAFolderWithAListOfImagesNamesTheCommandThatPacksIt(t *testing.T) {
	var list bytes.Buffer
	w := parquet.NewGenericWriter[struct {
		Name string `parquet:"file_name"`
	}](&list)
	_, err := w.Write(make([]struct {
		Name string `parquet:"file_name"`
	}, 1))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for name, data := range map[string][]byte{"metadata.parquet": list.Bytes(), "metadata.csv": []byte("file_name\n1.jpg\n"), "metadata.jsonl": []byte("{}\n")} {
		dir := put(t, map[string][]byte{"1.jpg": []byte("\xff\xd8\xff"), name: data})
		_, err := Open(dir, Options{})
		require.ErrorContains(t, err, name+" is a list of images, as Hugging Face's ImageFolder has it, which headrace.pack takes: headrace pack "+dir+"/"+name)
		require.Equal(t, fault.KindEmpty, fault.KindOf(err))
	}
	dir := put(t, map[string][]byte{"metadata.parquet": fixture(t, "photos.parquet")})
	require.Equal(t, int64(7), open(t, dir, Options{}).Len())
}

func TestPythonAndGoHaveTheSameNamesOfSplits(t *testing.T) {
	source, err := os.ReadFile("../../python/headrace/_engine/containers.py")
	require.NoError(t, err)
	there := regexp.MustCompile(`(?m)^_SPLITS = \{(.*)\}$`).FindSubmatch(source)
	require.NotNil(t, there)
	here := regexp.MustCompile(`\(([a-z|]+)\)`).FindStringSubmatch(splitName.String())
	require.NotNil(t, here)
	names := strings.Split(strings.ReplaceAll(string(there[1]), `"`, ""), ", ")
	require.ElementsMatch(t, strings.Split(here[1], "|"), names)
}

func TestAnUnknownSplitIsRefusedAndTheKnownOnesAreNamed(t *testing.T) {
	tar := fixture(t, "folders.tar")
	dir := put(t, map[string][]byte{"train-0.tar": tar, "val-0.tar": tar})
	_, err := Open(dir, Options{Split: "test"})
	require.ErrorContains(t, err, `expected one of ["train" "val"]`)
}

func TestAFolderInAListStandsForTheContainersInIt(t *testing.T) {
	tars := fixture(t, "webdataset.tar")
	dir := put(t, map[string][]byte{"a/2.tar": tars, "a/1.tar": tars, "a/README.md": {1}, "b/x.tar": tars, "c/README.md": {1}, "d/headrace.json": {1}, "d/1.tar": tars})
	of := func(names ...string) (sources []string) {
		for _, name := range names {
			sources = append(sources, filepath.Join(dir, name))
		}
		return sources
	}
	d, err := OpenFiles(of("b/x.tar", "a"), Options{})
	require.NoError(t, err)
	t.Cleanup(d.Release)
	var names []string
	for _, shard := range d.Shards() {
		names = append(names, shard.Name)
	}
	require.Equal(t, []string{"b/x.tar", "a/1.tar", "a/2.tar"}, names)
	_, err = OpenFiles(of("b/x.tar", "c"), Options{})
	require.ErrorContains(t, err, "c: there is no container that is known")
	require.Equal(t, fault.KindEmpty, fault.KindOf(err))
	_, err = OpenFiles(of("b/x.tar", "d"), Options{})
	require.ErrorContains(t, err, "there is a headrace.json in it")
	require.Equal(t, fault.KindArgument, fault.KindOf(err))
}

func TestSourcesJoinedAsWebDatasetJoinsThemAreAList(t *testing.T) {
	tars := fixture(t, "webdataset.tar")
	dir := put(t, map[string][]byte{"1.tar": tars, "2.tar": tars, "3.tar": tars, "4::5.tar": tars})
	for source, want := range map[string][]string{
		dir + "/3.tar::" + dir + "/{1..2}.tar": {"3.tar", "1.tar", "2.tar"},
		dir + "/4::5.tar":                      {"4::5.tar"},
	} {
		d := open(t, source, Options{})
		var names []string
		for _, shard := range d.Shards() {
			names = append(names, shard.Name)
		}
		require.Equal(t, want, names)
	}
	_, err := Open(dir+"/1.tar::"+dir+"/none.tar", Options{})
	require.ErrorContains(t, err, dir+"/none.tar: cannot open it")
	_, err = Open(dir+"/1.tar::", Options{})
	require.ErrorContains(t, err, dir+"/1.tar::: cannot open it")
	_, err = Open(dir+"/1.tar::s3://bucket/2.tar", Options{})
	require.ErrorContains(t, err, "containers in files and in a store of objects are not one dataset")
	for source, want := range map[string][]string{
		"s3://b/1.tar::s3://b/2.tar":              {"s3://b/1.tar", "s3://b/2.tar"},
		"http://[::1]/1.tar::HTTPS://[::1]/2.tar": {"http://[::1]/1.tar", "HTTPS://[::1]/2.tar"},
		"s3://b/1::2.tar":                         {"s3://b/1::2.tar"},
		"::s3://b/1.tar":                          {"::s3://b/1.tar"},
	} {
		require.Equal(t, want, apart(source))
	}
}
