package pack

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

func keysOf(t testing.TB, d *catalog.Dataset) (keys []string) {
	for i := range d.Len() {
		key, err := d.Key(i)
		require.NoError(t, err)
		keys = append(keys, key)
	}
	return keys
}

// anyName makes a file name of bytes that are not UTF-8, of escapes and of parts of escapes.
func anyName(r *rand.Rand) string {
	pieces := []string{"\xff", "\xfe", "\xc3", "\xa9", "é", "%", "%FF", "%25", "F", "2", "5", "a", "_", " ", ".", "~", "\n", "雪"}
	name := ""
	for range 1 + r.IntN(5) {
		name += pieces[r.IntN(len(pieces))]
	}
	return name
}

func TestFilesOfAnyNamesHaveTheSameUniqueKeysAndClassesInPlaceAndPacked(t *testing.T) {
	checkNoLeaks(t)
	src, r := t.TempDir(), rand.New(rand.NewPCG(7, 7))
	image := testJPEG(1)
	for range 150 {
		class := anyName(r)
		if strings.Trim(class, ".") == "" {
			class += "c"
		}
		put(t, src, class+"/"+anyName(r)+".jpg", image)
	}
	listed := open(t, src)
	dst, _ := packed(t, PackConfig{Source: src, ShardBytes: 1 << 17})
	d := open(t, dst)
	keys := keysOf(t, listed)
	require.Equal(t, keys, keysOf(t, d))
	require.Equal(t, listed.Classes(), d.Classes())
	unique := map[string]bool{}
	for _, name := range append(keys, listed.Classes()...) {
		require.False(t, unique[name], "%q comes twice", name)
		unique[name] = true
	}
	require.Greater(t, len(keys), 100)
	report := verify(t, VerifyConfig{Source: dst})
	require.True(t, report.OK, "%+v", report.Faults)
}

func TestNamesInAListOfFilesThatAreNotUTF8GetDifferentKeys(t *testing.T) {
	checkNoLeaks(t)
	src, list := t.TempDir(), "path\n"
	for _, name := range []string{"\xff.jpg", "\xfe.jpg", "%FF.jpg", "a%20b.jpg"} {
		put(t, src, name, testJPEG(1))
		list += name + "\n"
	}
	put(t, src, "l\xffst.csv", []byte(list))
	dst, _ := packed(t, PackConfig{Source: filepath.Join(src, "l\xffst.csv")})
	require.Equal(t, []string{"%FF", "%FE", "%25FF", "a%20b"}, keysOf(t, open(t, dst)))
}

func TestIndexingRefusesANameThatIsNotUTF8BeforeItReadsAFile(t *testing.T) {
	checkNoLeaks(t)
	src := t.TempDir()
	put(t, src, "a/1.jpg", testJPEG(1))
	put(t, src, "b/\xff.jpg", testJPEG(2))
	track := NewTracker()
	_, err := Index(context.Background(), IndexConfig{Source: src}, track)
	require.Equal(t, fault.KindUnsupported, kindOf(err))
	require.EqualError(t, err, src+`/b/\xff.jpg: record 1 (b/%FF): unsupported: the name is no UTF-8, so the index of a folder cannot hold it; packing can`)
	require.Zero(t, track.Progress().Done)
	entries, _ := os.ReadDir(src)
	require.Len(t, entries, 2, "nothing is left in the folder")
}

func TestAKeyThatEscapesMakeTooLongIsRefusedBeforeAnythingIsPacked(t *testing.T) {
	checkNoLeaks(t)
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "none")
	deep := strings.Repeat("/"+strings.Repeat("\xff", 200), 7)
	put(t, src, "c"+deep+"/a.jpg", testJPEG(1))
	_, err := Pack(context.Background(), PackConfig{Source: src, Destination: dst}, nil)
	require.Equal(t, fault.KindLimit, kindOf(err))
	require.ErrorContains(t, err, "the key has 4210 bytes (expected at most 4096)")
	requireNothing(t, filepath.Dir(dst))
}

func TestADatasetOfVersion1KeepsItsKeys(t *testing.T) {
	checkNoLeaks(t)
	dst := filepath.Join(t.TempDir(), "d.hr")
	w, err := NewWriter(WriterConfig{Destination: dst, Classes: []string{"d%FF"}})
	require.NoError(t, err)
	label, keys := int64(0), []string{"c/%FF", "c/%25FF", "c/a%20b"} // keys as version 1 wrote them
	for _, key := range keys {
		require.NoError(t, w.Add(testJPEG(1), Added{Key: key, Label: &label}))
	}
	_, err = w.Finish()
	require.NoError(t, err)
	path := filepath.Join(dst, catalog.ManifestName)
	m, err := catalog.ReadManifest(path)
	require.NoError(t, err)
	require.Equal(t, [2]int{2, 1}, [2]int{m.Version, m.MinReader})
	m.Version = 1
	data, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	d := open(t, dst)
	require.Equal(t, keys, keysOf(t, d))
	require.Equal(t, []string{"d%FF"}, d.Classes())
	require.True(t, verify(t, VerifyConfig{Source: dst}).OK)
}

func TestPathsInResultsThatAreNotUTF8AreWrittenAsPythonReadsThem(t *testing.T) {
	for want, result := range map[string]any{
		`"destination":"/d\udcff"`: Summary{Destination: "/d\xff"},
		`"path":"/d\udcff"`:        Report{Path: "/d\xff"},
		`"file":"\udcfe.jpg"`:      Summary{Faults: Faults{Listed: []Fault{{File: "\xfe.jpg"}}}},
		`"file":"\udcfd.tar"`:      Report{Faults: Findings{Listed: []Finding{{File: "\xfd.tar"}}}},
	} {
		text, err := json.Marshal(result)
		require.NoError(t, err)
		require.Contains(t, string(text), want)
		require.NotContains(t, string(text), "\uFFFD", fmt.Sprint(result))
	}
}

func TestAWriterRefusesAKeyThatIsNotText(t *testing.T) {
	checkNoLeaks(t)
	w, err := NewWriter(WriterConfig{Destination: filepath.Join(t.TempDir(), "d.hr")})
	require.NoError(t, err)
	defer w.Abort()
	for text, want := range map[string]string{
		`{"key": "a\udcff"}`:   `key is "a\xff" (expected 1 to 4096 bytes of UTF-8 without NUL)`,
		`{"key": "a\ud800"}`:   `a name has a lone \ud800`,
		"{\"key\": \"a\xff\"}": "the fields are no valid UTF-8",
		"{\"note\": \"\xff\"}": "the fields are no valid UTF-8",
	} {
		require.ErrorContains(t, w.AddJSON(testJPEG(1), []byte(text)), want, text)
	}
	require.Zero(t, w.Len())
}
