package mmap

import (
	"bytes"
	"strings"
	"testing"
	"unsafe"

	"github.com/headrace/headrace/internal/inject"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASystemCallThatFailsIsRetriedOrReported(t *testing.T) {
	for _, c := range []struct {
		backend, faults string
		want            string // "ok", or a part of the error
	}{
		{"pread", "pread64:error=EIO:when=1..3", "ok"},
		{"pread", "pread64:error=EIO", "at byte 4000: cannot read it: input/output error"},
		{"pread", "pread64:error=EINTR:when=1..20", "ok"},
		{"pread", "pread64:error=EACCES", "at byte 4000: cannot read it: permission denied"},
		{"pread", "pread64:retval=0", "file is truncated (expected 44000 bytes, found 4000)"},
		{"mmap", "madvise:error=EINTR:when=1..20", "ok"},
		{"mmap", "madvise:error=EAGAIN:when=1..5", "ok"},
		{"mmap", "madvise:error=EAGAIN", "resource temporarily unavailable"},
		{"mmap", "madvise:error=ENOMEM", "at byte 4000: cannot read it: not enough memory"},
		{"mmap", "madvise:error=EHWPOISON", "at byte 4000: cannot read it: hardware memory error"},
		// A page that cannot be mapped but can be read, then pages that cannot be read either.
		{"mmap", "madvise:error=EFAULT", "ok"},
		{"mmap", "madvise:error=EFAULT;pread64:error=EIO", "at byte 4000: cannot read it: input/output error"},
		{"mmap", "madvise:error=EFAULT;pread64:error=EIO:when=1..2", "ok"},
		{"mmap", "fstat:error=EIO", "input/output error"},
		{"whole", "pread64:error=EIO:when=1..3", "ok"},
		{"whole", "pread64:error=EIO", "at byte 0: cannot read it: input/output error"},
		{"whole", "openat:error=EMFILE:when=1", "too many open files"},
		{"whole", "openat:error=EINTR:when=1..5", "ok"},
		{"whole", "fstat:error=EINTR:when=1..5", "ok"},
	} {
		t.Run(c.backend+"/"+c.faults, func(t *testing.T) {
			path := write(t, content(50_000))
			got := inject.Run(t, "TestFaultChild", c.backend+":"+path, c.faults)
			if c.want == "ok" {
				assert.Equal(t, "ok", got)
				return
			}
			assert.Contains(t, got, c.want)
			assert.Contains(t, got, path)
		})
	}
}

func TestPreadIsUsedWhereTheKernelCannotPopulate(t *testing.T) {
	path := write(t, content(50_000))
	for child, want := range map[string]string{
		"choose":  "pread",
		"index":   "ok",
		"insists": path + ": unsupported: cannot map it: " + ErrNoPopulate.Error(),
	} {
		assert.Equal(t, want, inject.Run(t, "TestFaultChild", child+":"+path, "madvise:error=EINVAL"))
	}
}

// TestFaultChild is the process whose system calls strace makes fail; it does nothing in an ordinary run.
func TestFaultChild(t *testing.T) {
	argument, begin := inject.Begin(t)
	backend, path, _ := strings.Cut(argument, ":")
	o := Options{Sequential: true} // madvise is then called by populate alone
	read := func(b *Buffer) (View, error) { return ReadWhole(path, b, 1<<20, o) }
	want := content(50_000)
	switch backend {
	case "mmap", "pread":
		o.Backend = map[string]Backend{"mmap": Mapped, "pread": Pread}[backend]
		f := open(t, path, o)
		want = want[4000:44_000]
		read = func(b *Buffer) (View, error) { return f.Read(b, 4000, 40_000) }
	}
	begin()
	switch backend {
	case "choose":
		inject.Answer(open(t, path, o).Backend().String())
		return
	case "insists":
		_, err := Open(path, Options{Backend: Mapped})
		inject.Answer(err.Error())
		return
	case "index":
		read = func(*Buffer) (View, error) {
			index, err := OpenIndex(path)
			if err != nil {
				return View{}, err
			}
			t.Cleanup(func() { require.NoError(t, index.Close()) })
			require.NotZero(t, BufferBytes(), "the index is a copy in memory")
			return View{unsafe.Pointer(unsafe.SliceData(index.Bytes())), int64(len(index.Bytes()))}, nil
		}
	}
	var b Buffer
	view, err := read(&b)
	switch {
	case err != nil:
		inject.Answer(err.Error())
	case !bytes.Equal(want, view.Bytes()):
		inject.Answer("wrong bytes")
	default:
		inject.Answer("ok")
	}
	b.Free()
}
