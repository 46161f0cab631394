// Package pipeline turns an order of samples into finished batches: it joins all other stages.
//
//	order -> (read ahead) -> decode threads -> slots -> batches, delivered in order
//
// A Loader is an endless stream of batches that runs over from one epoch into the next. It works
// ahead of the consumer by `prefetch` batches and never by more, and SeekTo moves it. Or, in a
// Loader opened for it, the caller submits every batch and its end of every epoch.
//
// # Who does what
//
// Decode workers are goroutines, each locked to a thread of its own with one native.Context. A
// sample is handed out by an atomic counter of its batch, and the next batch is opened before
// the last one is complete, so no core idles at a batch's end and no channel is touched for a
// sample. While reads are fast a worker reads the bytes itself, for a hand-over between threads
// would cost more than the read. When reads become slow (see pace.go) readers take samples from
// the same counters, many at a time, and queue the bytes for the workers.
//
// # Life of a batch
//
// planned: its position in the stream is known; its samples may be read ahead. open: it has a slot and
// its samples are decoded, in any order. complete: the last sample is in, or failed. delivered:
// the consumer holds it. Cancelling a stream claims all samples that are left, so that a batch
// that is in work ends by itself when the last worker leaves it.
//
// # Mixing
//
// Where a plan ends in MixUp or CutMix, what becomes of a sample is drawn before it is decoded
// (mix.go). For CutMix a sample writes the part of it that is seen into its own row of the slot, and
// the patch into the row of the sample that it is pasted into. For MixUp the first of two samples
// waits as bytes, and the worker that decodes the second weighs both, row by row as it decodes, or
// afterwards if the first came meanwhile. Workers take such samples in runs, so that the first is in
// their cache. A partner whose row is another rank's is decoded too, as one more sample of the draft
// without a row.
//
// # Errors
//
// A faulty sample is an error of its batch, the first in the order of samples, and comes out of
// Next exactly where the batch would have: everything before it is delivered first, and the
// stream stands there until SeekTo. Or it is replaced by a substitute that the order names.
//
// The package knows the syntax of nothing: neither containers nor pixels nor transforms.
package pipeline
