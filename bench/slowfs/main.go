// Command slowfs shows a folder through a slow file system: each read takes a delay, and all reads together have so
// many bytes a second. Nothing stays in the page cache.
//
//	cd bench/slowfs && go build -o ../../.build/bench/slowfs .
//	sudo .build/bench/slowfs -delay 20ms -rate 50 FOLDER MOUNTPOINT
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// slow is the cost of reads; the bytes of all files go through one pipe.
type slow struct {
	delay time.Duration
	rate  float64 // bytes a second; 0: no limit

	mu   sync.Mutex
	free time.Time // when all requested bytes have gone through the pipe
}

func (s *slow) wait(bytes int) {
	until := time.Now()
	if s.rate > 0 {
		s.mu.Lock()
		if s.free.Before(until) {
			s.free = until
		}
		s.free = s.free.Add(time.Duration(float64(bytes) / s.rate * float64(time.Second)))
		until = s.free
		s.mu.Unlock()
	}
	time.Sleep(time.Until(until) + s.delay)
}

// node is a file or folder whose files are slow.
type node struct {
	*fs.LoopbackNode
	slow *slow
}

// WrapChild makes everything in a slow folder slow.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{ops.(*fs.LoopbackNode), n.slow}
}

type file struct {
	fs.FileHandle
	slow *slow
}

func (f *file) Read(ctx context.Context, buffer []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	result, errno := f.FileHandle.(fs.FileReader).Read(ctx, buffer, offset)
	if errno == 0 {
		f.slow.wait(result.Size())
	}
	return result, errno
}

func (f *file) Release(ctx context.Context) syscall.Errno {
	return f.FileHandle.(fs.FileReleaser).Release(ctx)
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, more, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return &file{handle, n.slow}, more | fuse.FOPEN_DIRECT_IO, 0
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("slowfs: ")
	delay := flag.Duration("delay", 0, "of each read")
	rate := flag.Float64("rate", 0, "MB a second, of all reads together; 0: no limit")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("a folder and a mount point were expected")
	}
	cost := &slow{delay: *delay, rate: *rate * 1e6}
	root, err := fs.NewLoopbackRoot(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	server, err := fs.Mount(flag.Arg(1), &node{root.(*fs.LoopbackNode), cost}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMount: true, FsName: "slowfs", MaxBackground: 128},
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ended
		// A closed loader may still have reads under way.
		for server.Unmount() != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}()
	server.Wait()
}
