package mmap

import (
	"os"
	"testing"
)

// BenchmarkRead is one record of a typical photograph, page cache warm, in random order.
func BenchmarkRead(b *testing.B) {
	const record, records = 110_000, 300
	path := b.TempDir() + "/shard-00000.tar"
	writeBench(b, path, record*records)
	for _, o := range []Options{{Backend: Mapped}, {Backend: Mapped, Sequential: true}, {Backend: Pread}} {
		name := o.Backend.String()
		if o.Sequential {
			name += "-sequential"
		}
		b.Run(name, func(b *testing.B) {
			f, err := Open(path, o)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			var buffer Buffer
			defer buffer.Free()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := f.Read(&buffer, int64(i*7919%records)*record, record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadWhole is one file of a folder.
func BenchmarkReadWhole(b *testing.B) {
	path := b.TempDir() + "/n01440764_tench.jpg"
	writeBench(b, path, 110_000)
	var buffer Buffer
	defer buffer.Free()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadWhole(path, &buffer, 1<<20, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func writeBench(b *testing.B, path string, size int) {
	b.Helper()
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkGuard is what a look at one row of an index costs.
func BenchmarkGuard(b *testing.B) {
	path := b.TempDir() + "/index.arrow"
	writeBench(b, path, 1<<20)
	x, err := OpenIndex(path)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	for b.Loop() {
		if err := x.Guard(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
