package scan

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
