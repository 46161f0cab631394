package pack

import (
	"sync"

	"github.com/headrace/headrace/internal/remote"
)

// VerifyConfig asks for a check of every byte of a dataset.
// Its limits are those of this run, which may differ from those with which the dataset was made.
type VerifyConfig struct {
	Options
	Source   string         `json:"source"`    // a packed dataset or an indexed folder
	IndexDir string         `json:"index_dir"` // where the index of a folder is, if elsewhere
	Root     string         `json:"root"`      // where the containers of an index are, if elsewhere
	Storage  remote.Storage `json:"-"`         // for a Source that is a URL
	Decode   bool           `json:"decode"`    // read all entropy data again and compare with the index
}

// Report is the result of Verify.
// OK is about the dataset alone: whether each byte is as its index says.
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
	// KnownFaults counts samples that were no good images when they were packed or indexed, and still are. Their bytes are
	// as recorded, so they are no faults of the dataset, and OK does not depend on them.
	KnownFaults int64     `json:"known_faults"`
	Known       []Finding `json:"known"` // the first of them; Found has the verdict, Text the reason
}

// Findings lists what is wrong up to a limit, and counts all of it.
// The total is exact, however few are listed.
type Findings struct {
	Total  int64     `json:"total"`
	Listed []Finding `json:"listed"`
}

// add counts a finding, and lists the first ones.
func (f *Findings) add(one Finding) {
	f.Total++
	if len(f.Listed) < maxListedFaults {
		f.Listed = append(f.Listed, one)
	}
}

// Finding is one thing that is wrong.
// Expected and Found are texts, because they may be of many types and are meant for people.
type Finding struct {
	File     string `json:"file"`     // shard, index, manifest or image
	Record   int64  `json:"record"`   // -1 if no record is concerned
	Key      string `json:"key"`      // of the record
	Offset   int64  `json:"offset"`   // in the file, -1 if unknown
	Expected string `json:"expected"` // what index or manifest say
	Found    string `json:"found"`
	Text     string `json:"text"`
}

// findings collects from many goroutines.
// Findings are in the order in which threads found them, until Findings.sorted sorts them at the end.
type findings struct {
	mu    sync.Mutex
	all   Findings
	known Findings
	track *Tracker
}

// add adds something that differs from what was recorded.
func (f *findings) add(one Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all.add(one)
	f.track.add(0, 0, 1)
}

// addKnown adds a sample that is as recorded, and had a fault already then.
func (f *findings) addKnown(one Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known.add(one)
}
