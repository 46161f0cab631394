package catalog

import (
	"io"
	"os"
)

// Made is a file of a dataset in the making, in a directory or in a store of objects.
type Made interface {
	io.Writer
	// Commit ends a file whose bytes are then where they are to stay: on the disk, or in the store.
	Commit() error
	// Abandon ends it and leaves nothing, also after an error and after Commit.
	Abandon()
	// Name is its path or address, for texts.
	Name() string
}

// Create begins a file at a path where there is none.
func Create(path string) (*OnDisk, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &OnDisk{File: f}, nil
}

// OnDisk is one that is made in a file system.
type OnDisk struct {
	*os.File
}

// Commit has the bytes on the disk.
func (f *OnDisk) Commit() error {
	err := f.Sync()
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// Abandon removes the file.
func (f *OnDisk) Abandon() {
	f.Close()
	os.Remove(f.Name())
}
