package formats

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func walk(data []byte) (members []TarMember, err error) {
	w := NewTarWalker(bytes.NewReader(data), int64(len(data)))
	for {
		m, err := w.Next()
		if errors.Is(err, io.EOF) {
			return members, nil
		}
		if err != nil {
			return members, err
		}
		members = append(members, m)
	}
}

func TestAWrittenTarIsReadAlikeByTheWalkerAndTheStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var b bytes.Buffer
	w := NewTarWriter(&b)
	names, contents, places := []string{}, [][]byte{}, []int64{}
	for i := range 300 {
		name := fmt.Sprintf("%s/%03d", strings.Repeat("d", 1+r.IntN(150)), i)
		if i%2 == 0 {
			name = fmt.Sprintf("%s%03d", strings.Repeat("n", 1+r.IntN(96)), i)
		}
		content := bytes.Repeat([]byte{byte(i)}, r.IntN(2000))
		at, err := w.MemberBytes(name, content)
		require.NoError(t, err)
		names, contents, places = append(names, name), append(contents, content), append(places, at)
	}
	require.NoError(t, w.Close())
	require.Zero(t, b.Len()%tarRecord)
	require.Equal(t, int64(b.Len()), w.Len())
	members, err := walk(b.Bytes())
	require.NoError(t, err)
	require.Len(t, members, len(names))
	std := tar.NewReader(bytes.NewReader(b.Bytes()))
	for i, m := range members {
		require.Equal(t, names[i], m.Name)
		require.Equal(t, places[i], m.Offset)
		require.Equal(t, m.Header+TarBlock, m.Offset)
		h, err := std.Next()
		require.NoError(t, err)
		require.Equal(t, names[i], h.Name)
		got, err := io.ReadAll(std)
		require.NoError(t, err)
		require.Equal(t, contents[i], got)
	}
}

func TestTheTarWalkerReadsTheNamesOfPaxAndGNUHeaders(t *testing.T) {
	for _, format := range []tar.Format{tar.FormatPAX, tar.FormatGNU} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		names := []string{"short.jpg", strings.Repeat("long/", 60) + "ü.jpg", "dir/", "after.cls"}
		for _, n := range names {
			h := &tar.Header{Name: n, Mode: 0o644, Size: 5, Format: format, Typeflag: tar.TypeReg}
			if n == "dir/" {
				h.Typeflag, h.Size = tar.TypeDir, 0
			}
			require.NoError(t, w.WriteHeader(h))
			w.Write([]byte("12345")[:h.Size])
		}
		require.NoError(t, w.Close())
		members, err := walk(b.Bytes())
		require.NoError(t, err)
		require.Len(t, members, 3)
		for i, n := range []int{0, 1, 3} {
			require.Equal(t, names[n], members[i].Name)
			require.Equal(t, "12345", string(b.Bytes()[members[i].Offset:members[i].Offset+5]))
		}
	}
}

// header makes a block with a right checksum after an edit.
func header(name string, size int64, edit func([]byte)) []byte {
	var block [TarBlock]byte
	if err := putTarHeader(&block, name, size); err != nil {
		panic(err)
	}
	edit(block[:])
	sum, _ := checksums(block[:])
	copy(tarChecksum.of(block[:]), fmt.Sprintf("%06o\x00 ", sum))
	return block[:]
}

func TestHostileTarHeadersAreErrorsOfTheRightKind(t *testing.T) {
	content := make([]byte, 4*TarBlock)
	pax := func(records string) []byte {
		b := header("pax", int64(len(records)), func(b []byte) { b[tarType] = 'x' })
		return append(append(b, records...), make([]byte, padding(int64(len(records))))...)
	}
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"size behind the end": {header("a", 1<<20, func([]byte) {}), ErrTruncated},
		"size of 8 GiB - 1":   {header("a", maxTarSize, func([]byte) {}), ErrTruncated},
		"base 256":            {header("a", 0, func(b []byte) { b[124] = 0x80; b[135] = 1 }), ErrUnsupported},
		"negative":            {header("a", 0, func(b []byte) { copy(b[124:], bytes.Repeat([]byte{255}, 12)) }), ErrBad},
		"no number":           {header("a", 0, func(b []byte) { copy(b[124:], "0000000000x") }), ErrBad},
		"symbolic link":       {header("a", 0, func(b []byte) { b[tarType] = '2' }), ErrUnsupported},
		"hard link":           {header("a", 0, func(b []byte) { b[tarType] = '1' }), ErrUnsupported},
		"device":              {header("a", 0, func(b []byte) { b[tarType] = '3' }), ErrUnsupported},
		"GNU sparse":          {header("a", 0, func(b []byte) { b[tarType] = 'S' }), errSparse},
		"parent directory":    {header("../../etc/x", 0, func([]byte) {}), ErrBad},
		"absolute":            {header("/etc/x", 0, func([]byte) {}), ErrBad},
		"no name":             {header("", 0, func([]byte) {}), ErrBad},
		"pax size":            {append(pax("12 size=999\n"), header("a", 0, func([]byte) {})...), ErrUnsupported},
		"pax sparse":          {append(pax("22 GNU.sparse.major=1\n"), header("a", 0, func([]byte) {})...), errSparse},
		"pax length too long": {append(pax("99 path=a\n"), header("a", 0, func([]byte) {})...), ErrBad},
		"pax length 0":        {append(pax("0 path=a\n"), header("a", 0, func([]byte) {})...), ErrBad},
		"pax of 1 GiB":        {header("a", 1<<30, func(b []byte) { b[tarType] = 'x' }), ErrTruncated},
		"checksum":            {append([]byte("x"), header("a", 0, func([]byte) {})[1:]...), ErrBad},
		"half a header":       {header("a", 0, func([]byte) {})[:300], ErrTruncated},
	} {
		data := c.data
		if len(data)%TarBlock == 0 {
			data = append(bytes.Clone(data), content...)
		}
		_, err := walk(data)
		require.ErrorIs(t, err, c.want, name)
		var at *WalkError
		require.ErrorAs(t, err, &at, name)
	}
}

func TestPaxHeaderOverTheLimitIsRefusedBeforeItIsRead(t *testing.T) {
	data := append(header("a", maxPaxBytes+1, func(b []byte) { b[tarType] = 'x' }), make([]byte, maxPaxBytes+2*TarBlock)...)
	_, err := walk(data)
	require.ErrorIs(t, err, ErrLimit)
}

func TestMemberNamesAreSafeShortAndUnique(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	alphabet := []rune("ab/._-% ü\\\x01~漢")
	seen := map[string]string{}
	for range 200_000 {
		key := make([]rune, 1+r.IntN(6))
		for i := range key {
			key[i] = alphabet[r.IntN(len(alphabet))]
		}
		k := string(key)
		if r.IntN(20) == 0 {
			k = strings.Repeat(k, 40)
		}
		name := MemberName(k, 4)
		if other, ok := seen[name]; ok {
			require.Equal(t, other, k, "two keys share the member name %q", name)
		}
		seen[name] = k
		_, _, ok := splitName(name + ".jpeg")
		require.True(t, ok)
		require.NotContains(t, name, ".")
		require.NotContains(t, name, "//")
		require.False(t, strings.HasPrefix(name, "/") || strings.HasPrefix(name, "_") || strings.HasSuffix(name, "/"))
		require.NoError(t, new(TarWalker).checkName(name+".jpeg"))
	}
	require.Equal(t, "n01440764/n01440764_10026", MemberName("n01440764/n01440764_10026", 4))
}

func TestATarWriterFailsForGoodAfterAMemberShorterThanItsHeaderSays(t *testing.T) {
	w := NewTarWriter(io.Discard)
	_, err := w.Member("a", 10, strings.NewReader("12345"))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = w.MemberBytes("b", nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Error(t, w.Close())
}

// FuzzTar compares the walker with archive/tar: where both accept, they agree on name, size and
// content, and the walker never ends before the library does.
func FuzzTar(f *testing.F) {
	for _, format := range []tar.Format{tar.FormatUSTAR, tar.FormatPAX, tar.FormatGNU} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, n := range []string{"a.jpg", "d/" + strings.Repeat("x", 98)} {
			w.WriteHeader(&tar.Header{Name: n, Mode: 0o600, Size: 3, Format: format})
			w.Write([]byte("abc"))
		}
		w.Close()
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// The fuzzer cannot guess checksums, so they are corrected wherever a header may be.
		data = bytes.Clone(data)
		for at := 0; at+TarBlock <= len(data); at += TarBlock {
			block := data[at : at+TarBlock]
			if string(block[257:262]) == "ustar" {
				sum, _ := checksums(block)
				copy(tarChecksum.of(block), fmt.Sprintf("%06o\x00 ", sum))
			}
		}
		w := NewTarWalker(bytes.NewReader(data), int64(len(data)))
		std := tar.NewReader(bytes.NewReader(data))
		for {
			m, err := w.Next()
			h, stdErr := std.Next()
			for stdErr == nil && (h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader) {
				h, stdErr = std.Next()
			}
			if err != nil {
				if stdErr == nil && errors.Is(err, io.EOF) {
					t.Fatalf("the walker ends where archive/tar finds %q", h.Name)
				}
				return
			}
			if m.Offset < 0 || m.Size < 0 || m.Offset+m.Size > int64(len(data)) || len(m.Name) > MaxNameBytes {
				t.Fatalf("a member outside the archive: %+v of %d", m, len(data))
			}
			if stdErr != nil {
				return // archive/tar is stricter about fields that no walker needs
			}
			got, readErr := io.ReadAll(std)
			// Where GNU's times are no numbers, archive/tar takes them for a POSIX prefix, as a
			// bug in old versions of it wrote them; no other reader does.
			if string(data[m.Header+257:m.Header+265]) == gnuMagic && strings.HasSuffix(h.Name, "/"+m.Name) {
				continue
			}
			if h.Name != m.Name || h.Size != m.Size || readErr == nil && !bytes.Equal(got, data[m.Offset:m.Offset+m.Size]) {
				t.Fatalf("%q with %d bytes, archive/tar says %q with %d", m.Name, m.Size, h.Name, h.Size)
			}
		}
	})
}
