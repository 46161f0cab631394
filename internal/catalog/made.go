package catalog

import (
	"io"
	"os"
)

// Made is a file of a dataset that is being made, in a directory or in an object store.
type Made interface {
	io.Writer
	// Commit ends a file. Its bytes are then where they should stay: on the disk, or in the store.
	Commit() error
	// Abandon ends the file and leaves nothing of it. It may be called after an error, and after Commit.
	Abandon()
	// Name is its path or address, for texts.
	Name() string
}

// Create begins a file at a path where there is none yet.
func Create(path string) (*OnDisk, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &OnDisk{File: f}, nil
}

// OnDisk is a Made in a file system.
type OnDisk struct {
	*os.File
}

// Commit writes the bytes to the disk.
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
