package pack

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/limits"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/remote/s3test"
	"github.com/headrace/headrace/internal/tape"
)

func TestAnObjectOverTheRecordLimitIsKeptAndListedAsAFault(t *testing.T) {
	server := s3test.Start(t, "photos")
	source := testFolder(t, 12)
	listing, err := openFolder(source, false, nil)
	require.NoError(t, err)
	big := filepath.Join(source, listing.list.Path(5))
	data, err := os.ReadFile(big)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(big, append(data, bytes.Repeat([]byte{1}, 300_000)...), 0o644))
	require.NoError(t, os.CopyFS(filepath.Join(server.Dir, "photos", "set"), os.DirFS(source)))
	small := limits.Limits{MaxRecordBytes: 200_000}
	storage := remote.Storage{Endpoint: server.Endpoint, PathStyle: true}
	here, made := packed(t, PackConfig{Source: source, Options: Options{Limits: small}})
	away := filepath.Join(t.TempDir(), "away")
	found, err := Pack(context.Background(), PackConfig{Source: "s3://photos/set", Destination: away, Storage: storage, Options: Options{Limits: small}}, NewTracker())
	require.NoError(t, err)
	require.Equal(t, int64(1), found.Counts["verdict"]["limit"])
	require.Equal(t, made.Counts, found.Counts)
	require.Len(t, found.Faults.Listed, testFaults) // the large one is one of them
	for i, fault := range found.Faults.Listed {
		require.Equal(t, made.Faults.Listed[i].Reason, fault.Reason)
		require.Contains(t, fault.File, "s3://photos/set/class ")
	}
	require.Equal(t, digest(t, here), digest(t, away))
	out := filepath.Join(t.TempDir(), "index")
	_, err = Index(context.Background(), IndexConfig{Source: "s3://photos/set", Out: out, Storage: storage, Options: Options{Limits: small}}, NewTracker())
	require.NoError(t, err)
	d, err := catalog.Open(out, catalog.Options{Storage: storage})
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, found.Fingerprint, d.Fingerprint())
	s, err := d.Sample(5)
	require.NoError(t, err)
	require.Equal(t, catalog.Limit, s.Verdict)
}

// alternating stores archives of class folders and returns their total length. The images in their order come from the
// archives in turn.
func alternating(t *testing.T, archives, images int) (server *s3test.Server, storage remote.Storage, stored int64) {
	server = s3test.Start(t, "photos")
	for n := range archives {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := n; i < images; i += archives {
			image := testJPEG(uint64(i))
			require.NoError(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("set/cat/%03d.jpg", i), Mode: 0o644, Size: int64(len(image))}))
			_, err := w.Write(image)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		stored += int64(b.Len())
		require.NoError(t, os.WriteFile(filepath.Join(server.Dir, "photos", fmt.Sprintf("%d.tar", n)), b.Bytes(), 0o644))
	}
	return server, remote.Storage{Endpoint: server.Endpoint, PathStyle: true}, stored
}

func TestSamplesThatAlternateBetweenArchivesInAStoreAreFetchedOnce(t *testing.T) {
	for _, archives := range []int{tapesHeld, 3 * tapesHeld} {
		_, storage, stored := alternating(t, archives, 96)
		destination := filepath.Join(t.TempDir(), "packed")
		found, err := Pack(t.Context(), PackConfig{Source: "s3://photos/*.tar", Destination: destination, Storage: storage, ContainerOptions: ContainerOptions{Format: "tar"}}, NewTracker())
		require.NoError(t, err)
		require.Equal(t, int64(96), found.Rows)
		// Allowed are the headers once, both ends, which for archives this small are all bytes once each, a piece of
		// each archive, which is the whole archive, and the images. A piece for each image would be 10 times as much.
		require.LessOrEqual(t, storage.Counts().Bytes, 5*stored)
	}
}

func TestAContainerThatIsReadForLongTakesTheTapeOfAnotherOne(t *testing.T) {
	_, storage, _ := alternating(t, tapesHeld+1, tapesHeld+1)
	c, err := openContainers(t.Context(), "s3://photos/*.tar", &ContainerOptions{Format: "tar"}, storage, false)
	require.NoError(t, err)
	defer c.close()
	for n := range uint32(tapesHeld) {
		require.IsType(t, &tape.Tape{}, c.reader(n))
	}
	require.IsType(t, &tape.Tape{}, c.reader(tapesHeld), "a new container gets the tape of container 0")
	require.IsType(t, readerAt(nil), c.reader(0), "container 0 comes back before the new one has stayed for long")
	c.at = leastStay
	require.IsType(t, &tape.Tape{}, c.reader(2))
	require.IsType(t, &tape.Tape{}, c.reader(0))
	require.Equal(t, []uint32{3, tapesHeld, 2, 0}, c.recent)
	require.IsType(t, readerAt(nil), c.reader(1))
}

func TestSmallContainersThatAreReadInOrderAreEachReadByATape(t *testing.T) {
	_, storage, _ := alternating(t, 3*tapesHeld, 3*tapesHeld)
	c, err := openContainers(t.Context(), "s3://photos/*.tar", &ContainerOptions{Format: "tar"}, storage, false)
	require.NoError(t, err)
	defer c.close()
	for n := range uint32(3 * tapesHeld) {
		for range 8 {
			require.IsType(t, &tape.Tape{}, c.reader(n))
			c.at++
		}
	}
}

func TestContainersInAStoreAreVerifiedOneByOneEvenIfRowsAlternate(t *testing.T) {
	server, storage, stored := alternating(t, 3, 30)
	out := filepath.Join(t.TempDir(), "index")
	_, err := Index(t.Context(), IndexConfig{Source: "s3://photos/*.tar", Out: out, Storage: storage, ContainerOptions: ContainerOptions{Format: "tar"}}, NewTracker())
	require.NoError(t, err)
	before := storage.Counts().Bytes
	report, err := Verify(t.Context(), VerifyConfig{Source: out, Storage: storage}, NewTracker())
	require.NoError(t, err)
	require.True(t, report.OK, report.Faults)
	// Both ends of archives this small are all bytes, once each.
	require.Equal(t, 3*stored, storage.Counts().Bytes-before)

	file := filepath.Join(server.Dir, "photos", "1.tar")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o644))
	report, err = Verify(t.Context(), VerifyConfig{Source: out, Storage: storage}, NewTracker())
	require.NoError(t, err)
	require.False(t, report.OK)
}
