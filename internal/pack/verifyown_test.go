package pack

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHashesOfMDSGiveThePublishedValues(t *testing.T) {
	for name, want := range map[string]string{ // the hashes of no bytes
		"md5": "d41d8cd98f00b204e9800998ecf8427e", "sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		"xxh64": "ef46db3751d8e999", "xxh3_64": "2d06800538d394c2", "xxh128": "99aa06d3014798d86001c324468d497f",
	} {
		require.Equal(t, want, hex.EncodeToString(mdsHashes[name]().Sum(nil)), name)
	}
	for name, want := range map[string]string{ // of "abc" a hundred times, by Python's xxhash 4.1
		"xxh64": "517d55d78f9dac2b", "xxh3_64": "3d1e91bb47ef5c2f", "xxh3_128": "bfae835ca03aaf033d1e91bb47ef5c2f",
	} {
		sum := mdsHashes[name]()
		_, err := sum.Write([]byte(strings.Repeat("abc", 100)))
		require.NoError(t, err)
		require.Equal(t, want, hex.EncodeToString(sum.Sum(nil)), name)
	}
}
