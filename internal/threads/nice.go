package threads

import "golang.org/x/sys/unix"

// LeastNice is the niceness of the threads that yield most (sched(7)).
const LeastNice = 19

// Lower makes the locked thread yield to the process's other threads: by so much its niceness is
// above the process's. A thread that a training launches its kernels from then does not wait for a
// decoder's time slice. On Linux niceness is a thread's own (setpriority(2), "C library/kernel
// differences"), and threads that the runtime starts do not come from a locked one, so none inherits
// it. To lower needs no privilege; where it is refused all the same the thread works as well.
func Lower(by int) {
	if by == 0 {
		return
	}
	const base = 20 // the kernel answers 20 less the niceness, so that no answer is an error
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(base-now+by, LeastNice))
}
