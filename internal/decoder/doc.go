// Package decoder decodes images that a program chooses one by one: each task has its own bytes or
// file, its own configuration, its own key of draws, and its own place in the program's memory.
//
// # Who does what
//
// Submit copies a list of tasks and returns at once; the list is a Work. Works are done in the order in which they were
// submitted, and the tasks of a work in their order, so that no thread waits for the last image of a batch while there
// is another batch. Decode threads are those of a loader: goroutines, each locked to a thread with one native.Context
// and one buffer. Neighbouring tasks of one image are one unit: its bytes are read once. If the keys of such tasks
// differ only in the view, they are made in one pass over the bytes, like a loader's views.
//
// # Whose memory
//
// What a task reads and writes belongs to the program. A thread touches it only between begin and end of a unit's
// decoding. Close waits for these, and no unit begins after it. A file is read into the thread's own memory before, so
// Close does not wait for a read that hangs.
//
// # Configurations
//
// Thousands of tasks share one text. The package keeps what a text compiles to, for the text and, because sizes may
// follow a schedule, the epoch. It keeps a bounded number of those that were used last.
//
// The package knows neither JSON nor transforms: the code that opens a Decoder says how a text is compiled.
package decoder
