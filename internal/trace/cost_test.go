package trace

import (
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkASampleIsWritten measures what a sample costs the goroutine that writes. On a busy machine the CPU
// time that `time` reports says more than ns/op.
func BenchmarkASampleIsWritten(b *testing.B) {
	file, _, err := create(filepath.Join(b.TempDir(), "run.json"))
	if err != nil {
		b.Fatal(err)
	}
	e := Event{Kind: Sample, Row: 7, Index: 812345, Bytes: 110000, Begin: time.Hour, Took: 300000, Read: 9000, Checksum: 3000, Decode: 200000, Ops: 50000, Write: 20000}
	w := writer{file: file, most: 1 << 40}
	for b.Loop() {
		w.event(1, &e)
		if len(w.buffer) >= flushBytes {
			w.flush()
		}
	}
	if err := w.close(0, 0); err != nil {
		b.Fatal(err)
	}
}
