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
// Every other transition is a StateError and changes nothing. A *Slot is one passage through this life: Acquire hands out a new
// one each time, so that a stale one, released before, can never end the life of the memory's
// next tenant (each tenancy has a generation, and the memory knows the current one).
//
// Acquire never waits: a consumer who keeps every batch gets new memory, never a deadlock and
// never an overwrite. When slots come back, Keep free ones stay for the next batches and the
// rest is unmapped. After Close, free slots are gone and the others are unmapped as they end.
//
// # Memory
//
// A slot of the pool's own is a private mapping of /dev/zero, which is anonymous memory: the size of
// /dev/shm does not matter, and there is no file that somebody could cut. Its descriptor is closed
// once it is mapped, so that batches take none of those that the process may have. Where /dev/zero
// cannot be opened or mapped (a bare chroot, a sandbox, no descriptor left), it is anonymous memory
// without a name.
//
// No page is there before its first touch, which costs more than the mapping, in a virtual machine
// several times more; Populate pays that in parts, by whichever threads are about to write. Until
// then memory is only promised. When it is short, Acquire fails with a MemoryError that says how
// much was needed; what the slots of all pools are promised counts as gone, or the kernel would
// have to kill somebody later.
//
// # Forks
//
// A forked child has a copy of each held slot, copied as either side writes to it (fork(2)). Nothing
// else of the pool is in a child: free, filling and ready slots are hidden (MADV_DONTFORK), for
// nobody could read them there, and a fork would copy the page tables of all of them, behind which
// each page that is written would be copied once. Hold shows a slot, Release hides it again. Below a
// megabyte that costs more than it spares, and they stay in sight; so does one that is mapped at the
// very moment of a fork.
//
// # Loans
//
// Lent memory belongs to the caller and serves exactly one batch: Lend makes it free, Acquire
// takes lent memory first, and Release (or Close) ends the loan. Abandon makes it free again. What
// a forked child sees of it is its owner's affair.
package pinned
