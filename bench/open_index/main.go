// Command open_index shows that opening a dataset takes the same time for any size. It writes the index of a dataset
// without shards, row by row, then opens it in another process and prints time and memory.
//
//	go run ./bench/open_index            # 10,000,000 rows, about 1 GB in a temporary directory
//	go run ./bench/open_index -rows 1000000 -dir /data/x
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/catalog"
)

func main() {
	rows := flag.Int64("rows", 10_000_000, "samples in the index")
	dir := flag.String("dir", "", "where to write it; empty: a temporary directory, removed at the end")
	open := flag.String("open", "", "open this dataset and print the figures as JSON (used by the program itself)")
	flag.Parse()
	if *open != "" {
		measure(*open)
		return
	}
	if *dir == "" {
		var err error
		if *dir, err = os.MkdirTemp("", "open_index"); err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(*dir)
	}
	begin := time.Now()
	size, err := generate(*dir, *rows)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("wrote %d rows, %.2f GB, in %.1f s\n", *rows, float64(size)/1e9, time.Since(begin).Seconds())
	for range 3 {
		out, err := exec.Command(os.Args[0], "-open", *dir).Output()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(string(out))
	}
}

// generate writes an index of rows as packing photographs would make it.
func generate(dir string, rows int64) (int64, error) {
	const perShard, perRow = 2000, 128 << 10
	w, err := catalog.NewWriter(filepath.Join(dir, catalog.IndexFileName(0)), catalog.Packed, nil)
	if err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	var shards []catalog.ShardInfo
	for i := range rows {
		n := i % perShard
		if n == 0 {
			shards = append(shards, catalog.ShardInfo{Name: catalog.ShardName(len(shards)), Size: perShard*perRow + 10240, Rows: min(perShard, rows-i)})
		}
		class := i * 1000 / rows
		row := catalog.Row{
			Sample: catalog.Sample{
				Shard: uint32(len(shards) - 1), Offset: 512 + n*perRow, Length: 50_000 + random.Int64N(60_000), Label: class, Verdict: catalog.Good,
				Facts: catalog.Facts{Width: 500, Height: 375, CRC32C: random.Uint32(), Channels: 3, Codec: 1, Sampling: 3, Process: 1},
			},
			Key: fmt.Sprintf("n%08d/n%08d_%d", class, class, i),
		}
		if err := w.Append(&row); err != nil {
			return 0, err
		}
	}
	m, err := w.Finish()
	if err != nil {
		return 0, err
	}
	m.Index.Name, m.Shards = catalog.IndexFileName(0), shards
	for c := range 1000 {
		m.Classes = append(m.Classes, fmt.Sprintf("n%08d", c))
	}
	data, err := m.Encode()
	if err != nil {
		return 0, err
	}
	return m.Index.Size, os.WriteFile(filepath.Join(dir, catalog.ManifestName), data, 0o644)
}

// figures are the costs of opening; the process has done nothing else.
type figures struct {
	Rows          int64   `json:"rows"`
	OpenMs        float64 `json:"open_ms"`
	OpenRSSMB     float64 `json:"open_rss_growth_mb"`
	FirstSampleMs float64 `json:"first_sample_ms"` // its record batch is validated
	NextSampleNs  float64 `json:"sample_ns"`       // a sample of that batch
}

func measure(path string) {
	before := rss()
	begin := time.Now()
	d, err := catalog.Open(path, catalog.Options{})
	if err != nil {
		log.Fatal(err)
	}
	f := figures{Rows: d.Len(), OpenMs: time.Since(begin).Seconds() * 1e3, OpenRSSMB: rss() - before}
	begin = time.Now()
	if _, err := d.Sample(d.Len() / 2); err != nil {
		log.Fatal(err)
	}
	f.FirstSampleMs = time.Since(begin).Seconds() * 1e3
	begin = time.Now()
	first := d.Len() / 2 / catalog.RowsPerBatch * catalog.RowsPerBatch
	n := min(catalog.RowsPerBatch, d.Len()-first)
	for i := range n {
		if _, err := d.Sample(first + i); err != nil {
			log.Fatal(err)
		}
	}
	f.NextSampleNs = float64(time.Since(begin).Nanoseconds()) / float64(n)
	json.NewEncoder(os.Stdout).Encode(f)
}

// rss returns the resident memory of this process in MB, including mapped files.
func rss() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1e3
		}
	}
	return 0
}
