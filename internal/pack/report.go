package pack

import (
	"sync"

	"github.com/headrace/headrace/internal/remote"
)

// VerifyConfig asks for every byte of a dataset to be checked.
// Limits of it are those of this run, which need not be those that the dataset was made with.
type VerifyConfig struct {
	Options
	Source   string         `json:"source"`    // a packed dataset or an indexed folder
	IndexDir string         `json:"index_dir"` // where the index of a folder lies, if elsewhere
	Root     string         `json:"root"`      // where the containers lie that an index names, if elsewhere
	Storage  remote.Storage `json:"-"`         // of a Source that is a URL
	Decode   bool           `json:"decode"`    // read all entropy data anew and compare with the index
}

// Report is what Verify found.
// OK is about the dataset alone: whether each byte is what its index says.
type Report struct {
	Path        string   `json:"path"`
	Kind        string   `json:"kind"`
	OK          bool     `json:"ok"`
	Rows        int64    `json:"rows"`
	Shards      int      `json:"shards"`
	Bytes       int64    `json:"bytes"` // read and compared with checksums
	Seconds     float64  `json:"seconds"`
	Fingerprint string   `json:"fingerprint"`
	Faults      Findings `json:"faults"`
	// Samples that were no good image when they were packed or indexed, and are so still: their bytes
	// are as recorded, so they are no faults of the dataset, and OK is not about them.
	KnownFaults int64     `json:"known_faults"`
	Known       []Finding `json:"known"` // the first of them; Found is the verdict, Text the reason
}

// Findings lists what is wrong, up to a bound, and counts all of it.
// The total is exact, however few are listed.
type Findings struct {
	Total  int64     `json:"total"`
	Listed []Finding `json:"listed"`
}

// add counts all and keeps the first ones.
func (f *Findings) add(one Finding) {
	f.Total++
	if len(f.Listed) < maxListedFaults {
		f.Listed = append(f.Listed, one)
	}
}

// Finding is one thing that is not as it should be.
// Expected and Found are texts: they are of any of a dozen kinds, and meant for people.
type Finding struct {
	File     string `json:"file"`     // shard, index, manifest or image
	Record   int64  `json:"record"`   // -1 where none is concerned
	Key      string `json:"key"`      // of the record
	Offset   int64  `json:"offset"`   // in the file, -1 where unknown
	Expected string `json:"expected"` // what index or manifest say
	Found    string `json:"found"`
	Text     string `json:"text"`
}

// findings collects from many goroutines.
// They are in the order in which threads found them, until all are done and Findings.sorted orders them.
type findings struct {
	mu    sync.Mutex
	all   Findings
	known Findings
	track *Tracker
}

// add takes what is not as it was recorded.
func (f *findings) add(one Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all.add(one)
	f.track.add(0, 0, 1)
}

// addKnown takes what is as it was recorded, and was no good then.
func (f *findings) addKnown(one Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.add(one)
}
