package main

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headrace/headrace/internal/fault"
)

type thing struct{ closed int }

func (t *thing) close() error { t.closed++; return nil }

type otherThing struct{ thing }

func emptyTable() *handleTable {
	return &handleTable{next: firstHandle, objects: make(map[int64]object)}
}

func TestAHandleIsFoundUntilItIsRemovedAndIsNeverUsedAgain(t *testing.T) {
	table, it := emptyTable(), &thing{}
	h := table.add(it)
	found, err := find[*thing](table, h, nil)
	require.NoError(t, err)
	assert.Same(t, it, found)

	removed, ok := table.remove(h)
	require.True(t, ok)
	assert.Same(t, it, removed)
	_, err = find[*thing](table, h, nil)
	assert.ErrorContains(t, err, "0x485200000001")
	_, ok = table.remove(h)
	assert.False(t, ok)
	assert.NotEqual(t, h, table.add(it), "a handle is never given to a second object")
}

func TestAHandleOfAnotherKindIsRefused(t *testing.T) {
	table := emptyTable()
	h := table.add(&otherThing{})
	_, err := find[*thing](table, h, nil)
	assert.Equal(t, code(fault.KindBadHandle), classify(err).code)
}

func TestIntegersThatAreNoHandlesAreRefused(t *testing.T) {
	table := emptyTable()
	table.add(&thing{})
	for _, stray := range []int64{0, -1, 1, 3, 1 << 62, firstHandle + 1} {
		_, err := find[*thing](table, stray, nil)
		assert.Equal(t, code(fault.KindBadHandle), classify(err).code, "%d", stray)
	}
}

func TestOnlyOneOfManyThreadsThatRemoveAHandleGetsItsObject(t *testing.T) {
	table := emptyTable()
	h := table.add(&thing{})
	var wait sync.WaitGroup
	got := make(chan object, 8)
	for range cap(got) {
		wait.Go(func() {
			if o, ok := table.remove(h); ok {
				got <- o
			}
		})
	}
	wait.Wait()
	assert.Len(t, got, 1)
}

func TestAHandlesObjectIsExchangedOnceAndOnlyIfItIsTheExpectedOne(t *testing.T) {
	table, first, job := emptyTable(), &thing{}, &otherThing{}
	h := table.add(first)
	table.exchange(h, &thing{}, job)
	_, err := find[*thing](table, h, nil)
	require.NoError(t, err, "an exchange that expects another object changes nothing")
	table.exchange(h, first, job)
	table.exchange(h, first, nil) // a second call, which comes too late
	found, err := find[*otherThing](table, h, nil)
	require.NoError(t, err)
	assert.Same(t, job, found)
	table.exchange(h, job, nil)
	_, err = find[*otherThing](table, h, nil)
	require.Error(t, err)
}
