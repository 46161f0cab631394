//go:build unix && !linux

package pinned

import "golang.org/x/sys/unix"

// Without memfd slots are anonymous shared mappings, and first touch is by hand.

func newMemfd(int64) (int, error) { return -1, nil }

func populatePages([]byte) error { return unix.EINVAL }

func availableBytes() int64 { return none }
