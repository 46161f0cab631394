package pack

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/limits"
)

func TestPixelsOverTheRecordLimitAreKeptWithThatVerdict(t *testing.T) {
	checkNoLeaks(t)
	const source = "../scan/testdata/pixels.lmdb" // of 1,800, 1,890, 1,980 and 690 bytes
	limited := Options{Limits: limits.Limits{MaxRecordBytes: 1950}}
	for _, in := range []string{"index", "shards"} {
		destination := t.TempDir() + "/made.hr"
		var made Summary
		var err error
		if in == "index" {
			made, err = Index(context.Background(), IndexConfig{Source: source, Out: destination, Options: limited}, nil)
		} else {
			made, err = Pack(context.Background(), PackConfig{Source: source, Destination: destination, Options: limited}, nil)
		}
		require.NoError(t, err, in)
		require.Equal(t, map[string]int64{"good": 3, "limit": 1}, made.Counts["verdict"], in)
		require.Equal(t, int64(1), made.Faults.Total, in)
		require.Equal(t, "the record has 1980 bytes, max_record_bytes is 1950", made.Faults.Listed[0].Reason, in)
		report, err := Verify(context.Background(), VerifyConfig{Source: destination, Decode: true}, nil)
		require.NoError(t, err, in)
		require.True(t, report.OK, "%v", report.Faults)
		require.Equal(t, int64(1), report.KnownFaults, in)
		s, err := opened(t, destination, catalog.Options{}).Sample(2)
		require.NoError(t, err)
		require.Equal(t, catalog.Limit, s.Verdict, in)
	}
	_, err := Pack(context.Background(), PackConfig{Source: source, Destination: t.TempDir() + "/none", OnFault: RaiseFaults, Options: limited}, nil)
	require.Equal(t, fault.KindLimit, fault.KindOf(err))
}
