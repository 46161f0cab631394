// Package pinned owns the memory that batches are written into: slots. It knows nothing of
// decoding, of what a batch means, or of CUDA.
//
// # Life of a slot
//
//	         Acquire            Ready            Hold
//	free ------------> filling ------> ready ---------> held
//	  ^                   |              |                |
//	  |      Abandon      |   Abandon    |     Release    |
//	  +-------------------+--------------+----------------+
//
// free: nobody writes, nobody reads. filling: the decode threads write, each its own samples'
// bytes. ready: complete, nobody writes, waits for its turn. held: the consumer reads (or
// writes: it is theirs) for as long as they like; the pool never touches a held slot.
// Every other step is a StateError and changes nothing. A *Slot is one passage through this life: Acquire hands out a new
// one each time, so that a stale one, released before, can never end the life of the memory's
// next tenant (each tenancy has a generation, and the memory knows the current one).
//
// Acquire never waits: a consumer who keeps every batch gets new memory, never a deadlock and
// never an overwrite. When slots come back, Keep free ones stay for the next batches and the
// rest is unmapped. After Close, free slots are gone and the others are unmapped as they end.
//
// # Memory
//
// A slot of the pool's own is one memfd, allocated in full by fallocate before it is mapped,
// then sealed against shrinking and growing: no later access can raise SIGBUS for want of
// memory, nobody can cut it, and the size of /dev/shm does not matter. Its descriptor is closed
// once it is mapped, so that batches take none of those that the process may have. When memory is short, Acquire fails with a MemoryError that says how much was needed.
// Page tables (and, in a virtual machine, the pages behind them) cost more than the allocation
// on first touch; Populate pays that in parts, by whichever threads are about to write.
// Where memfd is refused (seccomp, or no descriptor is left), slots are anonymous shared mappings.
//
// Lent memory belongs to the caller and serves exactly one batch: Lend makes it free, Acquire
// takes lent memory first, and Release (or Close) ends the loan. Abandon makes it free again.
package pinned
