package cache

import (
	"hash/crc32"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Records wait in memory until there are this many bytes, or for a second. A system call for each record would cost
	// more than everything else.
	flushBytes = 64 << 10
	flushEvery = time.Second
	// retryEvery is how long to wait before asking for a segment again if there was none.
	retryEvery = time.Second
)

// writer appends this process's values to a segment that it alone writes.
type writer struct {
	cache *Cache
	mu    sync.Mutex

	number     int // of the segment, as in places
	segment    *segment
	keys, data *os.File // nil without a segment; keys has the lock
	keysEnd    int64    // size on disk
	dataEnd    int64
	entries    []byte // not on disk yet
	records    []byte
	flushed    time.Time

	// Writable reads these without the lock.
	has   atomic.Bool  // there is a segment
	off   atomic.Bool  // a write has failed, so this process only reads from now on
	retry atomic.Int64 // no segment is asked for before this time in nanoseconds

	// By these a reader sees whether a record waits in memory. Otherwise it need not wait for the lock during a write.
	waiting     atomic.Pointer[segment]
	waitingFrom atomic.Int64
}

// put returns false if the record is there already, or cannot be kept.
func (w *writer) put(key Key, value []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	length := len(key) + len(value)
	crc := crc32.Update(crc32.Checksum(key[:], castagnoli), castagnoli, value)
	if w.cache.has(key, uint32(length), crc) {
		return false
	}
	if len(value) > w.cache.MostValue() || !w.ready(int64(length)) {
		return false
	}
	at := len(w.records)
	w.records = append(append(w.records, key[:]...), value...)
	e := entry{key, uint32(w.dataEnd) + uint32(at), uint32(length), crc}
	w.entries = e.append(w.entries)
	w.cache.note(w.number, []entry{e})
	if len(w.records) >= flushBytes || time.Since(w.flushed) >= flushEvery {
		w.flush()
	}
	return true
}

// writable is true if there is a segment, or if one is available.
func (w *writer) writable() bool {
	switch {
	case w.off.Load():
		return false
	case w.has.Load():
		return true
	case monotonic() < w.retry.Load():
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready(0)
}

// ready is true if there is a segment with room for a record of that length. It begins a new one if needed.
func (w *writer) ready(length int64) bool {
	if w.off.Load() {
		return false
	}
	if w.keys != nil && w.size()+length+entryBytes > w.cache.segmentBytes() {
		w.flush()
		w.leave()
	}
	if w.keys != nil {
		return true
	}
	if now := monotonic(); now < w.retry.Load() {
		return false
	} else if w.begin(); w.keys == nil {
		w.retry.Store(now + int64(retryEvery))
		return false
	}
	w.has.Store(true)
	w.flushed = time.Now()
	return true
}

// size is the size of the segment with all that waits in memory.
func (w *writer) size() int64 {
	return w.keysEnd + w.dataEnd + int64(len(w.entries)) + int64(len(w.records))
}

// flush writes what waits, each record before its entry. If the disk is full, the cache stays as it is.
func (w *writer) flush() {
	if w.keys == nil || len(w.entries) == 0 {
		return
	}
	w.flushed = time.Now()
	_, err := w.data.WriteAt(w.records, w.dataEnd)
	if err == nil {
		_, err = w.keys.WriteAt(w.entries, w.keysEnd)
	}
	if err != nil {
		w.off.Store(true)
		w.leave()
		return
	}
	w.dataEnd += int64(len(w.records))
	w.keysEnd += int64(len(w.entries))
	w.records, w.entries = w.records[:0], w.entries[:0]
	w.waitingFrom.Store(w.dataEnd)
	// The segment may have been evicted by somebody who did not see the lock. What follows goes into a new one.
	var status unix.Stat_t
	if unix.Fstat(int(w.keys.Fd()), &status) != nil || status.Nlink == 0 {
		w.leave()
	}
}

// leave releases the segment, so that any process may append to it.
func (w *writer) leave() {
	if w.keys == nil {
		return
	}
	unlock(w.keys)
	w.data.Close()
	w.keys, w.data, w.segment = nil, nil, nil
	w.has.Store(false)
	w.waiting.Store(nil)
	w.cache.own.Store(-1)
	w.records, w.entries = w.records[:0], w.entries[:0]
}

func (w *writer) close(leave bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	if leave {
		w.leave()
		w.records, w.entries = nil, nil
	}
}

// waits copies a record that is not on disk yet; false if it must be read from disk.
func (w *writer) waits(from *segment, at place, to []byte) bool {
	if w.waiting.Load() != from || int64(at.offset) < w.waitingFrom.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.segment != from || int64(at.offset) < w.dataEnd {
		return false
	}
	begin := int64(at.offset) - w.dataEnd
	if begin+int64(at.length) > int64(len(w.records)) {
		return false
	}
	copy(to, w.records[begin:])
	return true
}
