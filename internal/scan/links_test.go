package scan

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"hash/crc32"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tarTree is an archive of class folders, as tar makes it of a tree with links.
func tarTree(t *testing.T, members ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		m.Mode = 0o644
		if m.Typeflag == tar.TypeReg {
			m.Size = int64(len(m.Name))
		}
		require.NoError(t, w.WriteHeader(&m))
		if m.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(m.Name))
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestALinkInATarOfClassFoldersIsTheFileThatItPointsTo(t *testing.T) {
	long := "top/cat/" + strings.Repeat("long/", 40) + "9.jpg"
	archive := tarTree(t,
		tar.Header{Typeflag: tar.TypeSymlink, Name: "./top/ant/0.jpg", Linkname: "../cat/1.jpg"},
		tar.Header{Typeflag: tar.TypeReg, Name: "top/cat/1.jpg"},
		tar.Header{Typeflag: tar.TypeReg, Name: long},
		tar.Header{Typeflag: tar.TypeLink, Name: "top/dog/2.jpg", Linkname: "top/cat/1.jpg"},
		tar.Header{Typeflag: tar.TypeLink, Name: "top/dog/3.jpg", Linkname: long},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "top/dog/4.jpg", Linkname: "2.jpg"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "top/dog/5.jpg", Linkname: "5.jpg"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "top/dog/6.jpg", Linkname: "../../../etc/passwd"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "top/dog/7.jpg", Linkname: "/etc/passwd"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "top/dog/8.txt", Linkname: "1.jpg"},
	)
	d := open(t, put(t, map[string][]byte{"a.tar": archive})+"/a.tar", Options{})
	require.Equal(t, []string{"ant", "cat", "dog"}, d.Classes())
	require.Equal(t, []string{"ant/0", "cat/1", strings.TrimSuffix(long[len("top/"):], ".jpg"), "dog/2", "dog/3", "dog/4"}, keys(t, d))
	require.Equal(t, []int64{0, 1, 1, 2, 2, 2}, labels(t, d))
	one, nine := crc32.ChecksumIEEE([]byte("top/cat/1.jpg")), crc32.ChecksumIEEE([]byte(long))
	require.Equal(t, []uint32{one, one, nine, one, nine, one}, contents(t, d))
	require.Len(t, d.Warnings(), 1)
	require.Contains(t, d.Warnings()[0], `3 images are links to no file of the archive and passed over, as "top/dog/5.jpg"`)
}

func TestCyclesOfLinksInATarAreSkippedInAnyOrder(t *testing.T) {
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	members := []tar.Header{
		link("a/1.jpg", "2.jpg"), link("a/2.jpg", "../b/3.jpg"), link("b/3.jpg", "../a/1.jpg"), // a ring of three
		// Links before their file.
		link("a/4.jpg", "5.jpg"), link("a/5.jpg", "../b/6.jpg"), {Typeflag: tar.TypeReg, Name: "b/6.jpg"},
		// Links after it.
		{Typeflag: tar.TypeReg, Name: "b/7.jpg"}, link("b/8.jpg", "../a/9.jpg"), link("a/9.jpg", "../b/7.jpg"),
		{Typeflag: tar.TypeLink, Name: "b/hard.jpg", Linkname: "a/1.jpg"}, // into the ring
	}
	for turn := range len(members) {
		archive := tarTree(t, append(append([]tar.Header{}, members[turn:]...), members[:turn]...)...)
		d := open(t, put(t, map[string][]byte{"a.tar": archive})+"/a.tar", Options{})
		require.Equal(t, []string{"a/4", "a/5", "a/9", "b/6", "b/7", "b/8"}, keys(t, d))
		six, seven := crc32.ChecksumIEEE([]byte("b/6.jpg")), crc32.ChecksumIEEE([]byte("b/7.jpg"))
		require.Equal(t, []uint32{six, six, seven, six, seven, seven}, contents(t, d))
		require.Len(t, d.Warnings(), 1)
		require.Contains(t, d.Warnings()[0], `4 images are links to no file of the archive and passed over, as "a/1.jpg"`)
	}
}

func TestMembersOfATarThatAreNoFilesAreSkippedAsPythonSkipsThem(t *testing.T) {
	volume := make([]byte, 512)
	copy(volume, tarTree(t, tar.Header{Typeflag: tar.TypeReg, Name: "label"})[:512])
	volume[156] = 'V' // the type of a volume label (tar --label)
	copy(volume[124:136], "00000000000\x00")
	sum := 0
	copy(volume[148:156], "        ")
	for _, c := range volume {
		sum += int(c)
	}
	copy(volume[148:156], []byte{byte('0' + sum>>15&7), byte('0' + sum>>12&7), byte('0' + sum>>9&7), byte('0' + sum>>6&7), byte('0' + sum>>3&7), byte('0' + sum&7), 0, ' '})
	archive := append(volume, tarTree(t, tar.Header{Typeflag: tar.TypeReg, Name: "0.jpg"}, tar.Header{Typeflag: tar.TypeReg, Name: "0.txt"})...)
	d := open(t, put(t, map[string][]byte{"a.tar": archive})+"/a.tar", Options{})
	require.Equal(t, []string{"0"}, keys(t, d))
}

func TestASecondTarOfClassFoldersAfterTheFirstIsAWarning(t *testing.T) {
	one := tarTree(t, tar.Header{Typeflag: tar.TypeReg, Name: "a/1.jpg"})
	d := open(t, put(t, map[string][]byte{"a.tar": append(one[:len(one):len(one)], one...)})+"/a.tar", Options{})
	require.Equal(t, int64(1), d.Len())
	require.Contains(t, d.Warnings()[0], "a.tar: something stands behind the archive's end")
}

func TestATarOfClassFoldersMayHaveOtherFilesBesideThem(t *testing.T) {
	file := func(names ...string) (all []tar.Header) {
		for _, name := range names {
			all = append(all, tar.Header{Typeflag: tar.TypeReg, Name: name})
		}
		return all
	}
	for _, names := range [][]string{{"top/LICENSE", "top/cat/1.jpg", "top/dog/2.jpg", "top/classes.txt"}, {"README.md", "cat/1.jpg", "dog/2.jpg"}} {
		d := open(t, put(t, map[string][]byte{"a.tar": tarTree(t, file(names...)...)})+"/a.tar", Options{})
		require.Equal(t, []string{"cat", "dog"}, d.Classes(), names)
		require.Equal(t, []string{"cat/1", "dog/2"}, keys(t, d))
	}
	d := open(t, put(t, map[string][]byte{"a.tar": tarTree(t, file("cat/1.jpg", "cat/1.png", "cat/._1.jpg", "cat/2.jpg", "cat/2.JPG", "dog/.DS_Store", "dog/2.jpg")...)})+"/a.tar", Options{})
	require.Equal(t, []int64{0, 0, 0, 0, 1}, labels(t, d),
		"two files that differ only in their extensions are two images")
	for _, last := range []string{"cat/1.txt", "3.jpg"} {
		_, err := Open(put(t, map[string][]byte{"a.tar": tarTree(t, file("cat/1.jpg", "cat/1.png", "dog/2.jpg", last)...)})+"/a.tar", Options{})
		require.ErrorContains(t, err, "record 0 at byte 512: unsupported: jpg and png may both be the image")
	}
	d = open(t, put(t, map[string][]byte{"a.tar": tarTree(t, file("cat/1.jpg", "cat/1.txt", "dog/2.jpg")...)})+"/a.tar", Options{})
	require.Equal(t, "webdataset", d.Source().Format, "a caption beside an image makes it a WebDataset tar")
	require.Len(t, d.Fields(), 1)
}

// tar --append and zipfile's mode "a" append a file after a link of the same name.
func TestAFileAfterALinkOfTheSameNameReplacesItAsExtractionDoes(t *testing.T) {
	tarred, zipped := new(bytes.Buffer), new(bytes.Buffer)
	w, z := tar.NewWriter(tarred), zip.NewWriter(zipped)
	link := &zip.FileHeader{Name: "a/x.jpg"}
	link.SetMode(fs.ModeSymlink | 0o777)
	f, err := z.CreateHeader(link)
	require.NoError(t, err)
	f.Write([]byte("../b/y.jpg"))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "a/x.jpg", Typeflag: tar.TypeSymlink, Linkname: "../b/y.jpg"}))
	for i, name := range []string{"b/y.jpg", "a/x.jpg", "b/z.jpg"} {
		addToBoth(t, z, w, name, "\xff\xd8\xff"+strings.Repeat("x", i))
	}
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "b/z.jpg", Typeflag: tar.TypeLink, Linkname: "a/x.jpg"}))
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	dir := put(t, map[string][]byte{"a.zip": zipped.Bytes(), "a.tar": tarred.Bytes()})
	// In the tar the last member called b/z.jpg is a link.
	for name, want := range map[string][]int64{"a.zip": {4, 3, 5}, "a.tar": {4, 3, 4}} {
		d := open(t, dir+"/"+name, Options{})
		require.Equal(t, []string{"a/x", "b/y", "b/z"}, keys(t, d), name)
		for i, length := range want {
			s, err := d.Sample(int64(i))
			require.NoError(t, err)
			require.Equal(t, length, s.Length, "%s %d", name, i)
		}
	}
}
