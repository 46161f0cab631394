package beside

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/mmap"
)

// names are files whose order as paths is not that of their bytes: "a-b" stands before "a/c", and 'A' before 'a'.
var names = []string{
	"a/1.jpg", "a/2.jpg", "a/c/1.jpg", "a/c/d/0.jpg", "a-b/1.jpg", "A/1.jpg", "a/c-/1.jpg", "b/10.jpg", "b/9.jpg",
	"b/\u00e9.jpg", "b/\U0001F600.jpg", "b/\uffee.jpg",
}

// picture is a JPEG with seek points, a different one for each number.
func picture(t testing.TB, number int) []byte {
	grey := image.NewGray(image.Rect(0, 0, 200, 40+number))
	for i := range grey.Pix {
		grey.Pix[i] = byte(i * i / (50 + number))
	}
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, grey, nil))
	return b.Bytes()
}

// folder makes an image folder of the files in names, and fails a test that leaves a descriptor open.
func folder(t testing.TB) string {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	before := count()
	t.Cleanup(func() { require.Equal(t, before, count(), "descriptors") })
	root := filepath.Join(t.TempDir(), "data", "train")
	for i, name := range names {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, picture(t, i), 0o600))
	}
	return root
}

func indexed(t testing.TB, root string) string {
	_, err := pack.Index(context.Background(), pack.IndexConfig{Source: root}, nil)
	require.NoError(t, err)
	return root
}

func stampOf(t testing.TB, path string) mmap.Stamp {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return mmap.Stamp{Size: info.Size(), MTimeNs: info.ModTime().UnixNano()}
}

// found returns the seek points that are found for a file under a path, which may be another name of it.
func found(t testing.TB, x *Indexes, path, file string) []byte {
	var b mmap.Buffer
	defer b.Free()
	return bytes.Clone(x.Find(path, stampOf(t, file)).Read(&b).Bytes())
}

func opened(t testing.TB, current string) *Indexes {
	x := New(current)
	t.Cleanup(x.Close)
	return x
}

func TestEveryFileOfAnIndexedFolderHasTheSeekPointsOfItsRowByAnyPath(t *testing.T) {
	root := indexed(t, folder(t))
	d, err := catalog.Open(root, catalog.Options{})
	require.NoError(t, err)
	defer d.Release()
	require.EqualValues(t, len(names), d.Len())
	here, err := os.Getwd()
	require.NoError(t, err)
	relative, err := filepath.Rel(here, root)
	require.NoError(t, err)
	linked := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(root, linked))
	x := opened(t, here)
	var b mmap.Buffer
	defer b.Free()
	for row := range d.Len() {
		path, err := d.Path(row)
		require.NoError(t, err)
		sample, err := d.Sample(row)
		require.NoError(t, err)
		below, err := filepath.Rel(root, path)
		require.NoError(t, err)
		view, err := d.SeekFile().Read(&b, sample.Seek.Offset, sample.Seek.Length)
		require.NoError(t, err)
		want := bytes.Clone(view.Bytes())
		require.NotEmpty(t, want)
		for _, way := range []string{root, relative, linked, root + "/.", root + "//", root + "/a/.."} {
			named := way + "/" + below
			require.Equal(t, want, found(t, x, named, path), named)
			points := x.Find(named, stampOf(t, path))
			require.Equal(t, sample.CRC32C, points.Image)
			require.Equal(t, sample.Seek.CRC32C, points.CRC32C())
		}
	}
}

func TestAFileThatWasAddedOrChangedHasNoSeekPoints(t *testing.T) {
	root := indexed(t, folder(t))
	x := opened(t, "/")
	file := filepath.Join(root, "a/1.jpg")
	stamp := stampOf(t, file)
	require.NotEmpty(t, found(t, x, file, file))
	require.Zero(t, x.Find(file, mmap.Stamp{Size: stamp.Size + 1, MTimeNs: stamp.MTimeNs}))
	require.Zero(t, x.Find(file, mmap.Stamp{Size: stamp.Size, MTimeNs: stamp.MTimeNs - 1}))
	for _, name := range []string{"a/0.jpg", "a/3.jpg", "c/1.jpg", "0/1.jpg", "a/1.jpg2", "a", "1.jpg", "a/c", "a/c/d/e/f/g/1.jpg"} {
		require.Zero(t, x.Find(filepath.Join(root, name), stamp), name)
	}
	require.Zero(t, x.Find("/1.jpg", stamp))
	require.Zero(t, x.Find("1.jpg", stamp))
	require.Zero(t, x.Find("", stamp))
}

func TestAnIndexElsewhereOrOfAnotherKindOrWithoutSeekPointsIsNotUsed(t *testing.T) {
	root := folder(t)
	file := filepath.Join(root, "a/1.jpg")
	stamp := stampOf(t, file)
	_, err := pack.Index(context.Background(), pack.IndexConfig{Source: root, IndexDir: t.TempDir()}, nil)
	require.NoError(t, err)
	require.Zero(t, opened(t, "/").Find(file, stamp))

	bare := pack.IndexConfig{Source: root}
	bare.NoSeek = true
	_, err = pack.Index(context.Background(), bare, nil)
	require.NoError(t, err)
	require.Zero(t, opened(t, "/").Find(file, stamp))

	packed := filepath.Join(t.TempDir(), "packed")
	_, err = pack.Pack(context.Background(), pack.PackConfig{Source: root, Destination: packed}, nil)
	require.NoError(t, err)
	require.Zero(t, opened(t, "/").Find(filepath.Join(packed, "a/1.jpg"), stamp))
}

// alter changes a byte of the only file that matches a pattern, or cuts the file in half if at is negative.
func alter(t testing.TB, pattern string, at int) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	if at < 0 {
		data = data[:len(data)/2]
	} else {
		data[at%len(data)] ^= 0x21
	}
	require.NoError(t, os.WriteFile(files[0], data, 0o600))
}

func TestADamagedIndexGivesNoSeekPointsOrThoseWithTheRightChecksums(t *testing.T) {
	root := indexed(t, folder(t))
	file := filepath.Join(root, "b/9.jpg")
	want := opened(t, "/").Find(file, stampOf(t, file))
	right := found(t, opened(t, "/"), file, file)
	require.NotEmpty(t, right)
	for _, pattern := range []string{catalog.ManifestName, "headrace-index-*", "headrace-seek-*"} {
		for at := -1; at < 4000; at += 97 {
			indexed(t, root)
			alter(t, filepath.Join(root, pattern), at)
			x := opened(t, "/")
			for range 2 {
				points := x.Find(file, stampOf(t, file))
				if points == (Points{}) {
					continue
				}
				require.Equal(t, [2]uint32{want.Image, want.CRC32C()}, [2]uint32{points.Image, points.CRC32C()})
				if pattern != "headrace-seek-*" {
					require.Equal(t, right, found(t, x, file, file), "%s %d", pattern, at)
				}
			}
		}
	}
}

func TestAnIndexThatIsCutWhileItIsOpenIsNoLongerUsed(t *testing.T) {
	root := indexed(t, folder(t))
	file := filepath.Join(root, "b/9.jpg")
	x := opened(t, "/")
	require.NotEmpty(t, found(t, x, file, file))
	files, err := filepath.Glob(filepath.Join(root, "headrace-index-*"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(files[0], 100))
	require.Zero(t, x.Find(file, stampOf(t, file)))
	require.True(t, x.roots[root].broken.Load())
}

func TestTheNearestIndexIsUsedAndADamagedOneIsSkipped(t *testing.T) {
	outer := folder(t)
	inner := filepath.Join(outer, "a")
	require.NoError(t, os.Remove(filepath.Join(outer, "a-b/1.jpg"))) // an image folder may have no empty class
	require.NoError(t, os.Remove(filepath.Join(outer, "a-b")))
	file := filepath.Join(inner, "c/1.jpg")
	indexed(t, outer)
	ofOuter := found(t, opened(t, "/"), file, file)
	require.NotEmpty(t, ofOuter)
	indexed(t, inner)
	x := opened(t, "/")
	require.Equal(t, ofOuter, found(t, x, file, file))
	require.NotNil(t, x.roots[inner])
	require.Nil(t, x.roots[outer])
	alter(t, filepath.Join(inner, catalog.ManifestName), 50)
	x = opened(t, "/")
	require.Equal(t, ofOuter, found(t, x, file, file))
	require.NotNil(t, x.roots[outer])
}

func TestAnIndexInADirectoryThatAnybodyMayWriteToIsNotTrusted(t *testing.T) {
	root := indexed(t, folder(t))
	file := filepath.Join(root, "a/1.jpg")
	require.NoError(t, os.Chmod(root, 0o777|os.ModeSticky))
	require.Zero(t, opened(t, "/").Find(file, stampOf(t, file)))
	require.NoError(t, os.Chmod(root, 0o775))
	require.NotEmpty(t, found(t, opened(t, "/"), file, file))
}

func TestDirectoriesBeyondTheBoundAreNotSearchedForAnIndex(t *testing.T) {
	root := indexed(t, folder(t))
	x := opened(t, "/")
	x.most = 2
	var had []string
	for _, name := range names {
		file := filepath.Join(root, name)
		if len(found(t, x, file, file)) > 0 {
			had = append(had, filepath.Dir(name))
		}
	}
	require.Len(t, x.directories, 2)
	require.Len(t, slices.Compact(had), 2)
}

func TestSeekPointsOverTheLimitAreNotRead(t *testing.T) {
	root := indexed(t, folder(t))
	file := filepath.Join(root, "a/1.jpg")
	x := opened(t, "/")
	length := int64(len(found(t, x, file, file)))
	require.Positive(t, length)
	x.mostPoints = length
	require.NotEmpty(t, found(t, x, file, file))
	x.mostPoints = length - 1
	require.Zero(t, x.Find(file, stampOf(t, file)))
}

func TestAnIndexIsLookedForOnceInEachDirectory(t *testing.T) {
	root := folder(t)
	file := filepath.Join(root, "a/1.jpg")
	x := opened(t, "/")
	require.Zero(t, x.Find(file, stampOf(t, file)))
	indexed(t, root) // an index made while the program runs is used by the next one
	require.Zero(t, x.Find(file, stampOf(t, file)))
	require.NotEmpty(t, found(t, opened(t, "/"), file, file))
}
