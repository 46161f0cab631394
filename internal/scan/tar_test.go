package scan

import (
	"archive/tar"
	"bytes"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

func TestATarIsReadAsWebDatasetReadsIt(t *testing.T) {
	for file, image := range map[string]string{"webdataset.tar": "jpg", "gnu.tar": "jpg;jpeg;hidden.jpg", "unlabelled.tar": "jpg"} {
		d := open(t, "testdata/"+file, Options{Image: image, Format: "webdataset"})
		want := expected(t, file)
		require.Len(t, want, int(d.Len()), file)
		images := contents(t, d)
		for i, s := range want {
			key, err := d.Key(int64(i))
			require.NoError(t, err)
			require.Equal(t, s.Key, key, file)
			for _, suffix := range strings.Split(image, ";") {
				if crc, ok := s.Members[suffix]; ok {
					require.Equal(t, crc, images[i], "%s: %s", file, key)
				}
			}
			for _, f := range d.Fields() {
				value, err := d.FieldValue(int64(i), f.Name)
				require.NoError(t, err)
				require.Equal(t, s.Members[f.Name], crc32.ChecksumIEEE(bytesOf(value)), "%s of %s", f.Name, key)
			}
		}
	}
}

func bytesOf(value any) []byte {
	if text, ok := value.(string); ok {
		return []byte(text)
	}
	return value.([]byte)
}

func TestNumericLabelsAreKeptAndTextLabelsAreNumberedInSortedOrder(t *testing.T) {
	d := open(t, "testdata/webdataset.tar", Options{})
	require.Equal(t, []int64{0, 1, 2, 0, 1}, labels(t, d))
	require.Empty(t, d.Classes())
	d = open(t, "testdata/gnu.tar", Options{Image: "jpg;jpeg"})
	require.Equal(t, []string{"cat", "dog"}, d.Classes())
	require.Equal(t, []int64{1, -1, 0}, labels(t, d))
}

func TestTheOtherMembersOfASampleAreFieldsAndAMissingOneIsEmpty(t *testing.T) {
	d := open(t, "testdata/webdataset.tar", Options{})
	var names []string
	for _, f := range d.Fields() {
		names = append(names, fmt.Sprint(f.Name, " ", f.Type))
	}
	slices.Sort(names)
	require.Equal(t, []string{"json str", "seg.png bytes", "txt str"}, names)
	text, err := d.FieldValue(2, "txt")
	require.NoError(t, err)
	require.Equal(t, "üü", text)
	text, err = d.FieldValue(3, "txt")
	require.NoError(t, err)
	require.Empty(t, text)
	d = open(t, "testdata/webdataset.tar", Options{Fields: []string{"txt"}})
	require.Len(t, d.Fields(), 1)
	_, err = Open("testdata/webdataset.tar", Options{Fields: []string{"nope"}})
	require.ErrorContains(t, err, `fields: no sample has a column "nope" (found "cls"`)
}

func TestTheFoldersOfATarAreClassesInTheOrderOfAnImageFolder(t *testing.T) {
	d := open(t, "testdata/folders.tar", Options{})
	require.Equal(t, "tar", d.Source().Format)
	require.Equal(t, []string{"a", "b"}, d.Classes())
	require.Equal(t, []string{"a/z", "a/x/1", "a/x-y/1", "b/10", "b/2"}, keys(t, d))
	require.Equal(t, []int64{0, 0, 0, 1, 1}, labels(t, d))
	// The same tree, extracted.
	files := map[string][]byte{}
	for name, at := range map[string]int64{"top/b/2.jpg": 4, "top/a/x-y/1.png": 2, "top/a/x/1.jpg": 1, "top/b/10.JPEG": 3, "top/a/z.ppm": 0} {
		files[name] = []byte{byte(at)}
	}
	folder := open(t, put(t, files)+"/top", Options{})
	require.Equal(t, keys(t, folder), keys(t, d))
	require.Equal(t, labels(t, folder), labels(t, d))
}

func TestATarOfOneTarForEachClassHasClassesOfTheirNames(t *testing.T) {
	d := open(t, "testdata/nested.tar", Options{})
	require.Equal(t, "tar", d.Source().Format)
	require.Equal(t, []string{"n01440764", "n01443537"}, d.Classes())
	require.Equal(t, []string{"n01440764/n01440764_0", "n01440764/n01440764_1", "n01440764/n01440764_2",
		"n01443537/n01443537_0", "n01443537/n01443537_1", "n01443537/n01443537_2"}, keys(t, d))
	require.Equal(t, []int64{0, 0, 0, 1, 1, 1}, labels(t, d))
	require.Empty(t, d.Warnings())
	whole := fixture(t, "nested.tar")
	for i := range d.Len() {
		sample, err := d.Sample(i)
		require.NoError(t, err)
		require.Equal(t, []byte("\xff\xd8\xff"), whole[sample.Offset:sample.Offset+3])
		require.Equal(t, []byte("\xff\xd9"), whole[sample.Offset+sample.Length-2:sample.Offset+sample.Length])
	}
}

func TestASecondTarAfterTheFirstIsAWarningAndIsNotRead(t *testing.T) {
	dir := put(t, map[string][]byte{"two.tar": append(fixture(t, "unlabelled.tar"), fixture(t, "webdataset.tar")...)})
	d := open(t, dir+"/two.tar", Options{})
	require.Len(t, expected(t, "concatenated.tar"), int(d.Len()))
	require.Contains(t, strings.Join(d.Warnings(), "\n"), "two.tar: something stands behind the archive's end, at byte 10240")
	require.Empty(t, open(t, "testdata/webdataset.tar", Options{}).Warnings())
}

func TestSamplesWithoutALabelColumnAreUnlabelledWithAWarning(t *testing.T) {
	d := open(t, "testdata/unlabelled.tar", Options{})
	require.Equal(t, []int64{-1, -1, -1}, labels(t, d))
	require.Len(t, d.Warnings(), 1)
	require.Contains(t, d.Warnings()[0], `every label is -1 (found "jpg"); label= names one`)
}

// archive has the members in the order of pairs: name, content.
func archive(pairs ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: pairs[i], Mode: 0o644, Size: int64(len(pairs[i+1]))}); err != nil {
			panic(err)
		}
		w.Write([]byte(pairs[i+1]))
	}
	w.Close()
	return b.Bytes()
}

func TestLabelsComeFromJSONIfNoMemberIsALabel(t *testing.T) {
	samples := []string{"0.jpg", "x", "0.json", `{"label": 7, "a": {"b": "dog"}}`, "1.jpg", "x", "1.json", `{"label": 9.0, "a": {"b": "cat"}}`}
	dir := put(t, map[string][]byte{"a.tar": archive(samples...)})
	require.Equal(t, []int64{7, 9}, labels(t, open(t, dir+"/a.tar", Options{})))
	d := open(t, dir+"/a.tar", Options{Label: "json.a.b"})
	require.Equal(t, []string{"cat", "dog"}, d.Classes())
	require.Equal(t, []int64{1, 0}, labels(t, d))
	_, err := Open(dir+"/a.tar", Options{Label: "json.nope"})
	require.ErrorContains(t, err, `no sample has a column "json.nope"`)
}

func TestAMemberOfAJSONObjectMayBeOneOfSeveralNamesOfTheLabel(t *testing.T) {
	dir := put(t, map[string][]byte{"a.tar": archive("0.jpg", "x", "0.cls", "3", "1.jpg", "x", "1.json", `{"class": 5}`)})
	for _, names := range []string{"cls;json.class", "json.class;cls"} {
		require.Equal(t, []int64{3, 5}, labels(t, open(t, dir+"/a.tar", Options{Label: names})), names)
	}
	// seg.json is another column than json.
	_, err := Open(dir+"/a.tar", Options{Label: "seg.json.class"})
	require.ErrorContains(t, err, `no sample has a column "seg.json.class"`)
	_, err = Open(dir+"/a.tar", Options{Label: "json.class;json.other"})
	require.ErrorContains(t, err, `at most one member of JSON objects`)
}

func TestFractionalLabelsAreAFieldAndNoClasses(t *testing.T) {
	dir := put(t, map[string][]byte{"a.tar": archive("0.jpg", "x", "0.cls", "0.5", "1.jpg", "x", "1.cls", "2")})
	d := open(t, dir+"/a.tar", Options{})
	require.Equal(t, []int64{-1, -1}, labels(t, d)) // because of 0.5 the label 2 is a measured value, too
	value, err := d.FieldValue(0, "label")
	require.NoError(t, err)
	require.Equal(t, 0.5, value)
}

func TestAnImpossibleChoiceOfImageOrLabelIsAnErrorThatNamesTheColumns(t *testing.T) {
	for want, members := range map[string][]string{
		`jpg and png may both be the image; image= says which (the sample has cls, jpg, png)`: {"0.jpg", "x", "0.png", "x", "0.cls", "1"},
		`label and cls may both be the label; label= says which (the sample has cls, jpg, label)`: {
			"0.jpg", "x", "0.label", "2", "0.cls", "1"},
		`no column is known as the image (found "left.jpg", "cls"); image= names it`: {"0.left.jpg", "x", "0.cls", "1"},
		`the label is a pickle, which can run any code when it is read`:              {"0.jpg", "x", "0.pickle", "1"},
		`the sample "0" has two members "jpg"`:                                       {"0.jpg", "x", "0.JPG", "x"},
		`a column of the name "jpg`:                                                  {"0.jpg" + strings.Repeat("g", 240), "x"},
		`the member cls has 5000 bytes (expected at most 4096 for a label)`:          {"0.jpg", "x", "0.cls", strings.Repeat("7", 5000)},
		`several columns may be the label: cls, label`:                               {"0.jpg", "x", "0.cls", "1", "1.jpg", "x", "1.label", "1"},
	} {
		o := Options{}
		if strings.Contains(want, "pickle") {
			o.Label = "pickle"
		}
		dir := put(t, map[string][]byte{"a.tar": archive(members...)})
		_, err := Open(dir+"/a.tar", o)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dir)
		require.NotEqual(t, fault.KindInternal, fault.KindOf(err))
	}
}

func TestAWrongNameIsAnErrorThatSaysTheWordAndListsColumnsThatNobodyAskedFor(t *testing.T) {
	for want, o := range map[string]Options{
		"image: ":  {Image: "nope", Fields: []string{}},
		"label: ":  {Label: "nope", Fields: []string{}},
		"fields: ": {Fields: []string{"nope"}},
	} {
		_, err := Open("testdata/photos.parquet", o)
		require.ErrorContains(t, err, want+`no sample has a column "nope" (found `)
		for _, name := range []string{"photo", "kind", "list", "nested.depth"} {
			require.ErrorContains(t, err, strconv.Quote(name))
		}
		require.Equal(t, fault.KindArgument, fault.KindOf(err))
	}
}

func TestRepeatedKeysArePrefixedWithTheirContainersName(t *testing.T) {
	one := archive("0.jpg", "x", "1.jpg", "x", "only.jpg", "x")
	again := archive("0.jpg", "x", "2.jpg", "x", "2.txt", "", "3.jpg", "x", "2.jpg", "x")
	dir := put(t, map[string][]byte{"train-0.tar": one, "train-1.tar": again})
	d := open(t, dir, Options{})
	require.Equal(t, []string{"train-0/0", "1", "only", "train-1/0", "train-1/2", "3", "train-1/3"}, keys(t, d))
}

func TestMemberNamesThatLeadOutOfTheArchiveAreOnlyNames(t *testing.T) {
	dir := put(t, map[string][]byte{"a.tar": archive("../../etc/0.jpg", "x", "/etc/1.jpg", "x")})
	d := open(t, dir+"/a.tar", Options{Format: "webdataset"})
	require.Equal(t, []string{"@up/@up/etc/0", "etc/1"}, keys(t, d))
}

func TestLinksAndDevicesInAWebDatasetTarAreSkipped(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []*tar.Header{
		{Name: "dir/", Typeflag: tar.TypeDir}, {Name: "0.jpg", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("/etc/passwd", 20), Format: tar.FormatGNU},
		{Name: "1.jpg", Typeflag: tar.TypeReg, Size: 1}, {Name: "2.jpg", Typeflag: tar.TypeLink, Linkname: "1.jpg"}, {Name: "3.jpg", Typeflag: tar.TypeFifo},
	} {
		require.NoError(t, w.WriteHeader(h))
		w.Write([]byte("x")[:h.Size])
	}
	require.NoError(t, w.Close())
	require.Equal(t, []string{"1"}, keys(t, open(t, put(t, map[string][]byte{"a.tar": b.Bytes()})+"/a.tar", Options{})))
}

func FuzzMembersAreGroupedByWebDatasetsExpression(f *testing.F) {
	// webdataset/tariterators.py: base_plus_ext, and skip_meta and meta_prefix of tar_file_iterator.
	expression := regexp.MustCompile(`^((?:.*/|)[^.]+)[.]([^/]*)$`)
	meta := regexp.MustCompile(`^__[^/]*__($|/)`)
	for _, name := range []string{"a.jpg", "a/b.c/d.e.f", ".a", "x/.a.b", "x.y/.a", "a.b/c/.d.e", "//.a", "a//.b", "__m__/a.jpg", "__m__", "__", "___", "____", "__a.b__", "a."} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if strings.Contains(name, "\n") { // Python's dot does not match a newline, and no tool writes one
			return
		}
		key, suffix, ok := splitMember(name)
		found := expression.FindStringSubmatch(name)
		if meta.MatchString(name) {
			found = nil
		}
		require.Equal(t, found != nil, ok)
		if ok {
			require.Equal(t, found[1:], []string{key, suffix})
		}
	})
}
