// Package pipeline turns an order of samples into finished batches. It joins all other stages:
//
//	order -> (read ahead) -> decode threads -> slots -> batches, delivered in order
//
// A Loader is an endless stream of batches that continues from one epoch to the next. It works ahead of the consumer by
// `prefetch` batches and never by more, and SeekTo moves it. If the Loader is opened for that, the caller submits every
// batch and every end of an epoch instead.
//
// # Who does what
//
// Decode workers are goroutines, each locked to its own thread and with its own native.Context. An atomic counter of
// each batch hands out samples, and the next batch is opened before the last one is complete. So no core idles at the
// end of a batch, and no sample needs a channel. While reads are fast a worker reads the bytes itself, because a
// hand-over between threads would cost more than the read. When reads become slow (see pace.go) readers take samples
// from the same counters, many at a time, and queue the bytes for the workers.
//
// # Life of a batch
//
// planned: its position in the stream is known; its samples may be read ahead. open: it has a slot and its samples are
// decoded, in any order. complete: the last sample was decoded or has failed. delivered:
// the consumer holds it. Cancelling a stream claims all remaining samples, so that a batch in work ends when the last
// worker leaves it.
//
// # Mixing
//
// If a plan ends in MixUp or CutMix, what is done to a sample is drawn before it is decoded (mix.go). With CutMix a
// sample writes its visible part into its own row of the slot, and the patch into the row of the sample that the patch
// is pasted into. With MixUp the first of two samples waits as bytes, and the worker that decodes the second computes
// the weighted sum, row by row while it decodes, or afterwards if the first was decoded meanwhile. Workers take such
// samples in runs, so that the first is in their cache. A partner whose row belongs to another rank is decoded too, as
// one more sample of the draft, without a row.
//
// # Errors
//
// A faulty sample is an error of its batch. If there are several, the first in the order of samples counts. Next
// returns the error exactly where it would have returned the batch: everything before it is delivered first, and the
// stream stays there until SeekTo. Or the sample is replaced by a substitute that the order names.
//
// The package knows no formats: neither those of containers, nor pixels, nor transforms.
package pipeline
