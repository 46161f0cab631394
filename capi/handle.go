package main

import "sync"

// Handles count up from here ("HR" in the upper half) and are never used twice. So a stray integer,
// an index or a descriptor that is passed by mistake is HR_BAD_HANDLE, and not another object.
const firstHandle = 0x4852<<32 + 1

// An object is what a handle stands for. close is called once, when the handle leaves the table.
// Calls that are still at work on the object must survive it.
type object interface{ close() error }

type handleTable struct {
	mu      sync.Mutex
	next    int64
	objects map[int64]object
}

var handles = handleTable{next: firstHandle, objects: make(map[int64]object)}

func (t *handleTable) add(o object) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.next
	t.next++
	t.objects[h] = o
	return h
}

// exchange makes a handle stand for another object, or for none if that is nil. It does nothing if
// the handle no longer stands for the first one, because another thread has closed or exchanged it.
func (t *handleTable) exchange(h int64, old, other object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects[h] != old {
		return
	}
	if delete(t.objects, h); other != nil {
		t.objects[h] = other
	}
}

// remove takes the object out of the table. Whoever gets it must close it.
func (t *handleTable) remove(h int64) (object, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.objects[h]
	delete(t.objects, h)
	return o, ok
}

// find returns the object of a handle if it is a T. use, if given, runs under the table's lock.
// There it can take a reference before another thread can close the object.
func find[T object](t *handleTable, h int64, use func(T)) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.objects[h].(T)
	if !ok {
		return o, badHandle(h)
	}
	if use != nil {
		use(o)
	}
	return o, nil
}
