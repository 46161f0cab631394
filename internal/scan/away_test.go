package scan

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/remote"
)

func TestTheFragmentOfAnAddressIsNeitherSentNorInTheContainersName(t *testing.T) {
	data := fixture(t, "webdataset.tar")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/data/a.tar" && r.RequestURI != "/data/a.tar?sig=1" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	want := contents(t, open(t, "testdata/webdataset.tar", Options{}))
	for _, rest := range []string{"#x", "#", "?sig=1#x", "?sig=1#x?y", "#x?y"} {
		d, err := OpenAway(t.Context(), []string{server.URL + "/data/a.tar" + rest}, Options{})
		require.NoError(t, err, rest)
		t.Cleanup(d.Release)
		require.Equal(t, "a.tar", d.Shards()[0].Name, rest)
		require.Equal(t, want, contents(t, d), rest)
	}
}

// hubOf answers as Hugging Face's hub for the dataset org/pets: with these files of each revision. A revision's commit
// is its number.
func hubOf(t *testing.T, revisions map[string]map[string][]byte) catalog.Options {
	var mu sync.Mutex
	commits := map[string]map[string][]byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if name, found := strings.CutPrefix(r.URL.Path, "/api/datasets/org/pets/revision/"); found && revisions[name] != nil {
			commit := fmt.Sprintf("%040x", len(name))
			commits[commit] = revisions[name]
			fmt.Fprintf(w, `{"sha": %q}`, commit)
			return
		}
		if below, found := strings.CutPrefix(r.URL.Path, "/api/datasets/org/pets/tree/"); found {
			commit, folder, _ := strings.Cut(below, "/")
			var page []string
			for name, data := range commits[commit] {
				if strings.HasPrefix(name, folder) {
					page = append(page, fmt.Sprintf(`{"type":"file","path":%q,"size":%d,"oid":"00"}`, name, len(data)))
				}
			}
			fmt.Fprintf(w, "[%s]", strings.Join(page, ","))
			return
		}
		below, _ := strings.CutPrefix(r.URL.Path, "/datasets/org/pets/resolve/")
		commit, name, _ := strings.Cut(below, "/")
		if data, found := commits[commit][name]; found {
			w.Header().Set("ETag", `"00"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			return
		}
		w.Header().Set("X-Error-Code", "RevisionNotFound")
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	return catalog.Options{Storage: remote.Storage{Endpoint: server.URL, Anonymous: true}}
}

func TestTheErrorOfADatasetThatTheHubHasOnlyConvertedHasTheAddressesToGive(t *testing.T) {
	main := map[string][]byte{"README.md": []byte("Pets."), "pets.py": []byte("import datasets")}
	revisions := map[string]map[string][]byte{"main": main}
	stored := hubOf(t, revisions)
	for _, source := range []string{"hf://datasets/org/pets", "hf://datasets/org/pets/", "hf://datasets/org/pets/*.tar"} {
		_, err := OpenAway(t.Context(), []string{source}, Options{Options: stored})
		require.Error(t, err, source)
		require.NotContains(t, err.Error(), "Parquet", source)
	}
	data := fixture(t, "photos.parquet")
	revisions["refs/convert/parquet"] = map[string][]byte{"default/test/0000.parquet": data, "default/train/0000.parquet": data}
	given := "hf://datasets/org/pets@refs/convert/parquet/default/"
	for _, source := range []string{"hf://datasets/org/pets", "hf://datasets/org/pets/", "hf://datasets/org/pets/*.tar"} {
		_, err := OpenAway(t.Context(), []string{source}, Options{Options: stored})
		require.ErrorContains(t, err, `; what the hub converted to Parquet is below ["`+given+`test/" "`+given+`train/"]`, source)
	}
	want := contents(t, open(t, "testdata/photos.parquet", Options{}))
	for _, source := range []string{given + "train/", "hf://datasets/org/pets@~parquet/default/train/0000.parquet"} {
		d, err := OpenAway(t.Context(), []string{source}, Options{Options: stored})
		require.NoError(t, err, source)
		t.Cleanup(d.Release)
		require.Equal(t, want, contents(t, d), source)
	}
	d, err := OpenAway(t.Context(), []string{given}, Options{Split: "train", Options: stored})
	require.NoError(t, err)
	d.Release()
}

// counting counts the bytes of answers.
type counting struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// servedAt returns the address of a file on a web server, and how many bytes of it were sent so far.
func servedAt(t *testing.T, name string, data []byte) (address string, sent *atomic.Int64) {
	sent = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(counting{w, sent}, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/data/" + name, sent
}

// nested returns a tar of tars, each of which has one image of its name.
func nested(names ...string) []byte {
	var outer []string
	for i, name := range names {
		outer = append(outer, name, string(archive(fmt.Sprintf("%d.jpg", i), fmt.Sprint("image ", i))))
	}
	return archive(outer...)
}

func TestOfTarsOfOneNameBesideEachOtherInATarTheLastIsReadInAStoreAsOnDisk(t *testing.T) {
	for name, data := range map[string][]byte{
		"archives.tar": nested("a.tar", "b.tar", "b.tar", "c.tar"),
		"folders.tar":  archive("x/1.jpg", "one", "x/1.jpg", "again", "x/2.jpg", "two", "y/1.jpg", "three", "y/1.JPG", "four"),
	} {
		here := open(t, put(t, map[string][]byte{name: data})+"/"+name, Options{})
		address, _ := servedAt(t, name, data)
		there, err := OpenAway(t.Context(), []string{address}, Options{})
		require.NoError(t, err, name)
		t.Cleanup(there.Release)
		require.Equal(t, contents(t, here), contents(t, there), name)
		require.Equal(t, keys(t, here), keys(t, there), name)
		require.Equal(t, here.Warnings(), there.Warnings(), name)
		require.Equal(t, here.Classes(), there.Classes(), name)
	}
}

func TestInAStoreAWalkEndsWhereItsErrorCanOnlyBeKept(t *testing.T) {
	// The sample x/1 has two members "jpg". Only the caption behind them shows that these are samples of WebDataset.
	pairs := []string{"x/1.jpg", "one", "x/1.jpg", "again", "x/1.txt", "caption"}
	for i := range 20_000 {
		pairs = append(pairs, fmt.Sprintf("x/%d.jpg", i+2), strings.Repeat("x", 5000))
	}
	data := archive(pairs...)
	address, sent := servedAt(t, "a.tar", data)
	_, err := OpenAway(t.Context(), []string{address}, Options{})
	require.ErrorContains(t, err, `the sample "x/1" has two members "jpg"`)
	require.Less(t, sent.Load(), int64(len(data))*9/10)
}

func TestABracketInAnAddressOfAWebServerIsNoPattern(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6")
	}
	data := fixture(t, "webdataset.tar")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	want := contents(t, open(t, "testdata/webdataset.tar", Options{}))
	for _, name := range []string{"/data/a.tar", "/data/a[1].tar"} {
		d, err := OpenAway(t.Context(), []string{server.URL + name}, Options{})
		require.NoError(t, err, name)
		t.Cleanup(d.Release)
		require.Equal(t, want, contents(t, d), name)
	}
	_, err = OpenAway(t.Context(), []string{server.URL + "/data/*.tar"}, Options{})
	require.ErrorContains(t, err, "a server of plain HTTP has no lists; files there are named, with braces as in {000..146} or in a list")
}

func TestSourcesInAStoreMayOverlapInAnyOrder(t *testing.T) {
	tars := fixture(t, "webdataset.tar")
	stored := hubOf(t, map[string]map[string][]byte{"main": {"a/1.tar": tars, "a/README": []byte("read me")}})
	const folder, file = "hf://datasets/org/pets/a/", "hf://datasets/org/pets/a/1.tar"
	for _, sources := range [][]string{{folder, file}, {file, folder}} {
		d, err := OpenAway(t.Context(), sources, Options{Options: stored})
		require.NoError(t, err, sources)
		t.Cleanup(d.Release)
		require.Equal(t, []string{"1.tar", "1.tar"}, shardNames(d))
	}
}

func TestAnObjectThatIsCalledLikeAContainerAndIsNoneIsAnErrorAsOnDisk(t *testing.T) {
	tars, page := fixture(t, "webdataset.tar"), []byte("<Error>AccessDenied</Error>")
	stored := hubOf(t, map[string]map[string][]byte{"main": {"a/0.tar": tars, "a/1.tar": page, "a/README": page, "b/0.tar": tars, "b/README": page}})
	_, err := OpenAway(t.Context(), []string{"hf://datasets/org/pets/a/"}, Options{Options: stored})
	require.ErrorContains(t, err, "a/1.tar: unsupported: this is neither a folder nor a container that is known")
	d, err := OpenAway(t.Context(), []string{"hf://datasets/org/pets/b/"}, Options{Options: stored})
	require.NoError(t, err)
	t.Cleanup(d.Release)
}

func TestAFileThatASavedDatasetNamesHasToBeAContainerAmongSeveralSourcesToo(t *testing.T) {
	tars, pointer := fixture(t, "webdataset.tar"), []byte("version https://git-lfs.github.com/spec/v1")
	stored := hubOf(t, map[string]map[string][]byte{"main": {
		"a/state.json": []byte(`{"_data_files": [{"filename": "0.arrow"}, {"filename": "1.arrow"}], "_fingerprint": "0"}`),
		"a/0.arrow":    pointer, "a/1.arrow": tars, "b/2.tar": tars,
	}})
	const root = "hf://datasets/org/pets/"
	for _, sources := range [][]string{{root + "a"}, {root + "a", root + "b"}, {root + "{a,b}/"}, {root + "{b/*,a/0.arrow}"}} {
		_, err := OpenAway(t.Context(), sources, Options{Options: stored})
		require.ErrorContains(t, err, "a/0.arrow: unsupported: this is a pointer of Git LFS", sources)
	}
}
