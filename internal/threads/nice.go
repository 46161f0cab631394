package threads

import "golang.org/x/sys/unix"

// LeastNice is the niceness of the threads that yield most (sched(7)).
const LeastNice = 19

// Lower makes the locked thread yield to the process's other threads: its niceness is above the process's by so much.
// Then a thread from which a training launches its kernels does not wait for a decoder's time slice. On Linux niceness
// belongs to a single thread (setpriority(2), "C library/kernel differences"). Threads that the runtime starts do not
// come from a locked thread, so none inherits it. Raising niceness needs no privilege; if it is refused nevertheless,
// the thread works as well.
func Lower(by int) {
	if by == 0 {
		return
	}
	const base = 20 // the kernel returns 20 minus the niceness, so that no result looks like an error
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(base-now+by, LeastNice))
}
