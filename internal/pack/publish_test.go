package pack

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/inject"
)

// published is what a child process answers about a job whose last steps failed.
type published struct {
	Error    string
	Warnings []string
}

func publishing(t *testing.T, job, src, dst, faults string) (p published) {
	t.Helper()
	answer := inject.Run(t, "TestPublishChild", strings.Join([]string{job, src, dst}, "|"), faults)
	require.NoError(t, json.Unmarshal([]byte(answer), &p), "%s", answer)
	return p
}

func TestPublishChild(t *testing.T) {
	argument, begin := inject.Begin(t)
	of := strings.Split(argument, "|")
	begin()
	var s Summary
	var err error
	if of[0] == "pack" {
		s, err = Pack(context.Background(), PackConfig{Source: of[1], Destination: of[2], Overwrite: true}, nil)
	} else {
		s, err = Index(context.Background(), IndexConfig{Source: of[1]}, nil)
	}
	p := published{Warnings: s.Warnings}
	if err != nil {
		p.Error = err.Error()
	}
	text, _ := json.Marshal(p)
	inject.Answer(string(text))
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAPackingWhoseDirectoryCannotBeSyncedIsAnErrorAndChangesNothing(t *testing.T) {
	src, parent := testFolder(t, 6), t.TempDir()
	dst := filepath.Join(parent, "data.hr")
	failing := "path=" + parent + ";fsync:error=EIO"
	p := publishing(t, "pack", src, dst, failing)
	require.Contains(t, p.Error, parent+": cannot sync the directory: input/output error")
	require.Empty(t, namesIn(t, parent))
	before, err := Pack(context.Background(), PackConfig{Source: src, Destination: dst}, nil)
	require.NoError(t, err)
	put(t, src, "class 0/more.jpg", testJPEG(77))
	p = publishing(t, "pack", src, dst, failing)
	require.Contains(t, p.Error, "cannot sync the directory")
	require.Equal(t, []string{"data.hr"}, namesIn(t, parent))
	d, err := catalog.Open(dst, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, before.Rows, d.Len())
	require.Equal(t, before.Fingerprint, d.Fingerprint())
}

func TestAnOldDatasetThatCannotBePutBackIsKeptUnderAnotherName(t *testing.T) {
	src, parent := testFolder(t, 6), t.TempDir()
	dst := filepath.Join(parent, "data.hr")
	before, err := Pack(context.Background(), PackConfig{Source: src, Destination: dst}, nil)
	require.NoError(t, err)
	put(t, src, "class 0/more.jpg", testJPEG(77))
	// The first renameat2 finds the old dataset, the second one exchanges the two, and the third would put them back.
	faults := "path=" + parent + ";path=" + dst + ";fsync:error=EIO;renameat2:error=EIO:when=3+"
	p := publishing(t, "pack", src, dst, faults)
	names := namesIn(t, parent)
	require.Len(t, names, 2)
	require.Equal(t, "data.hr", names[0])
	kept := filepath.Join(parent, names[1])
	require.Contains(t, p.Error, "not taken away again; the old one is "+kept+": input/output error")
	require.Contains(t, kept, dst+".old-", "the next packing must not take it for what a killed one left")
	for path, rows := range map[string]int64{dst: before.Rows + 1, kept: before.Rows} {
		d, err := catalog.Open(path, catalog.Options{})
		require.NoError(t, err)
		defer d.Release()
		require.Equal(t, rows, d.Len())
	}
	_, err = Pack(context.Background(), PackConfig{Source: src, Destination: dst, Overwrite: true}, nil)
	require.NoError(t, err)
	require.Equal(t, names, namesIn(t, parent))
}

func TestAnIndexWhoseManifestCannotBeRenamedLeavesNoFile(t *testing.T) {
	src := testFolder(t, 6)
	manifest := filepath.Join(src, catalog.ManifestName)
	before := namesIn(t, src)
	p := publishing(t, "index", src, "", "path="+manifest+";rename,renameat,renameat2:error=EBUSY")
	require.Contains(t, p.Error, manifest+": cannot put the index in its place")
	require.Equal(t, before, namesIn(t, src))
}

func TestAnIndexThatCannotReplaceADamagedManifestLeavesTheOldIndex(t *testing.T) {
	src := testFolder(t, 6)
	old, err := Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	manifest := filepath.Join(src, catalog.ManifestName)
	whole, err := os.ReadFile(manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(manifest, whole[:len(whole)/2], 0o600))
	files := namesIn(t, src)
	put(t, src, "class 0/more.jpg", testJPEG(77))
	p := publishing(t, "index", src, "", "path="+manifest+";rename,renameat,renameat2:error=EBUSY")
	require.Contains(t, p.Error, manifest+": cannot put the index in its place")
	require.Equal(t, files, namesIn(t, src))
	// A user who still has the manifest can put it back.
	require.NoError(t, os.WriteFile(manifest, whole, 0o600))
	d, err := catalog.Open(src, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, old.Rows, d.Len())
	_, err = d.Sample(old.Rows - 1)
	require.NoError(t, err)
}

func TestAnIndexInForceThatCannotBeSyncedIsAWarningAndLeavesTheOldFiles(t *testing.T) {
	src := testFolder(t, 6)
	old, err := Index(context.Background(), IndexConfig{Source: src}, nil)
	require.NoError(t, err)
	files := namesIn(t, src)
	put(t, src, "class 0/more.jpg", testJPEG(77))
	p := publishing(t, "index", src, "", "path="+src+";fsync:error=EIO:when=2")
	require.Empty(t, p.Error)
	require.Len(t, p.Warnings, 1)
	require.Contains(t, p.Warnings[0], "the index may be the old one, or none, when the machine stops: ")
	require.Subset(t, namesIn(t, src), files)
	d, err := catalog.Open(src, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	require.Equal(t, old.Rows+1, d.Len())
}
