// Command scan measures how fast containers without an index are opened: it writes some of a kind, then scans them in
// other processes, and once more with their index.
//
//	go run ./bench/scan                          # 200,000 samples of 4 kB in 8 files, each kind
//	go run ./bench/scan -kinds tar -samples 1000000 -bytes 2048
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/internal/scan"
)

func main() {
	kinds := flag.String("kinds", "tar,tfrecord,mds,zip,arrow,lmdb,beton", "which containers, by their endings")
	samples := flag.Int("samples", 200_000, "samples of all files together")
	size := flag.Int("bytes", 4096, "bytes of an image")
	files := flag.Int("files", 8, "containers")
	rounds := flag.Int("rounds", 3, "times that each is opened")
	indexed := flag.Bool("index", false, "index them as well, which decodes each image, and open the index")
	open := flag.String("open", "", "open these and print the figures as JSON (used by the program itself)")
	flag.Parse()
	if *open != "" {
		measure(*open)
		return
	}
	for kind := range strings.SplitSeq(*kinds, ",") {
		if writers[kind] == nil {
			log.Fatalf("kinds: %q is none of those that are written here", kind)
		}
		if err := run(kind, *samples, *size, *files, *rounds, *indexed); err != nil {
			log.Fatal(err)
		}
	}
}

// run writes the containers of a kind and opens them in new processes, by a pattern and by an index.
func run(kind string, samples, size, files, rounds int, indexed bool) error {
	dir, err := os.MkdirTemp("", "scan")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i := range files {
		first, end := samples*i/files, samples*(i+1)/files
		if err := writers[kind](filepath.Join(dir, fmt.Sprintf("%06d.%s", i, kind)), first, end-first, size); err != nil {
			return err
		}
	}
	source := filepath.Join(dir, "*."+kind)
	for range rounds {
		if err := opened(source, kind); err != nil {
			return err
		}
	}
	if !indexed {
		return nil
	}
	index := filepath.Join(dir, "set.hr")
	begin := time.Now()
	if _, err := pack.Index(context.Background(), pack.IndexConfig{Source: source, Out: index}, nil); err != nil {
		return err
	}
	fmt.Printf("%-9s indexed in %.1f s\n", kind, time.Since(begin).Seconds())
	for range rounds {
		if err := opened(index, kind+".hr"); err != nil {
			return err
		}
	}
	return nil
}

func opened(source, what string) error {
	command := exec.Command(os.Args[0], "-open", source)
	command.Env = append(os.Environ(), "HEADRACE_CACHE=off")
	out, err := command.Output()
	if err != nil {
		return err
	}
	var f figures
	if err := json.Unmarshal(out, &f); err != nil {
		return err
	}
	if strings.HasSuffix(what, ".hr") {
		fmt.Printf("%-9s %8d samples: %.1f ms\n", what, f.Samples, f.Seconds*1e3)
		return nil
	}
	fmt.Printf("%-9s %8d samples, %.2f GB: %.3f s, %.2f GB/s and %7.0f samples/s a core\n", what, f.Samples, float64(f.Bytes)/1e9,
		f.Seconds, float64(f.Bytes)/1e9/f.CPU, float64(f.Samples)/f.CPU)
	return nil
}

// figures are the costs of opening; the process has done nothing else.
type figures struct {
	Samples int64   `json:"samples"`
	Bytes   int64   `json:"bytes"` // of the containers
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"` // seconds of all threads, including time in the kernel
}

func measure(source string) {
	before, begin := cpu(), time.Now()
	d, err := scan.Open(source, scan.Options{})
	if err != nil {
		log.Fatal(err)
	}
	f := figures{Samples: d.Len(), Seconds: time.Since(begin).Seconds(), CPU: cpu() - before}
	for _, s := range d.Shards() {
		f.Bytes += s.Size
	}
	json.NewEncoder(os.Stdout).Encode(f)
}

func cpu() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
