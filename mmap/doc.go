// Package mmap makes the bytes of a file readable by C code: mapped into memory, or read with
// pread into memory outside the Go heap. It knows nothing of records, images or batches.
//
// # Two backends, one meaning
//
// Mapped: the file is mapped once (through mmap-go). Read checks bounds and populates the page tables of the range with
// MADV_POPULATE_READ, so that a truncated or failing file is an errno here, and does not give zeros to the code that
// touches the bytes next.
//
// Pread: Read copies the range into the caller's Buffer. Truncation cannot harm it. A dataset's records are read this
// way unless its user asks for a mapping. Auto, which is for indexes, chooses it on network and FUSE file systems and
// on kernels before 5.14, which cannot populate.
//
// Populating does not help if a file is cut between Read and the last access to the View. Then zeros are read instead
// of a SIGBUS (watch.c), and Intact, when it is called after the last access, says so.
//
// # Life of a View
//
// A View is valid until its Buffer is used for another read, emptied or freed. The Buffer holds a reference on the
// mapped File, so Close may come at any time: the mapping disappears when the last Buffer that shows it lets go. A
// Buffer serves one goroutine at a time; a File serves any number. Reading through a View of a freed Buffer is the one
// mistake that this package cannot catch.
package mmap
