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
// free: nobody writes, nobody reads. filling: the decode threads write, each the bytes of its own samples. ready:
// complete, nobody writes, waits for its turn. held: the consumer reads (or writes, because the slot belongs to the
// consumer) for any time; the pool never touches a held slot. Every other transition is a StateError and changes
// nothing. A *Slot is one passage through this life: Acquire returns a new one each time. So an old one that was
// released before can never end the life of the memory's next tenant (each tenancy has a generation, and the memory
// knows the current one).
//
// Acquire never waits: a consumer who keeps every batch gets new memory, and never a deadlock or an overwritten batch.
// When slots come back, Keep free ones stay for the next batches and the rest is unmapped. After Close, free slots are
// gone, and the others are unmapped as they end.
//
// # Memory
//
// One of the pool's own slots is a private mapping of /dev/zero, which is anonymous memory: the size of /dev/shm does
// not matter, and there is no file that could be cut. Its descriptor is closed once it is mapped, so that batches use
// none of the descriptors that the process may have. If /dev/zero cannot be opened or mapped (a bare chroot, a sandbox,
// no descriptor left), the slot is anonymous memory without a name.
//
// A page exists only after its first touch, which costs more than the mapping, and several times more in a virtual
// machine. Populate pays that in parts, in the threads that are about to write. Until then memory is only promised. If
// it is short, Acquire fails with a MemoryError that says how much was needed. What the slots of all pools were
// promised counts as used, because otherwise the kernel would have to kill a process later.
//
// # Forks
//
// A forked child has a copy of each held slot, which is copied as either side writes to it (fork(2)). Nothing else of
// the pool is in a child. Free, filling and ready slots are hidden (MADV_DONTFORK), because nobody could read them
// there. A fork would also copy the page tables of all of them, and afterwards each page that is written would be
// copied once. Hold shows a slot, and Release hides it again. Below a megabyte hiding costs more than it saves, so
// small slots stay visible. So does a slot that is mapped at the very moment of a fork.
//
// # Loans
//
// Lent memory belongs to the caller and serves exactly one batch: Lend makes it free, Acquire takes lent memory first,
// and Release (or Close) ends the loan. Abandon makes it free again. What a forked child sees of it is its owner's
// business.
package pinned
