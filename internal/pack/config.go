package pack

import (
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/limits"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/internal/remote"
)

// What to do with files that are no good image.
// Neither leaves a sample out, so that the dataset has as many samples as its source.
const (
	KeepFaults  = "keep"  // they stay in the dataset with their verdict, and are listed
	RaiseFaults = "raise" // the first one ends the job
)

// Options are common to all jobs; the zero value is the default throughout.
// They are read from JSON of the C ABI; an unknown member is refused there.
type Options struct {
	Threads int           `json:"threads"` // 0: as many as the process may use
	Limits  limits.Limits `json:"limits"`
}

// SeekOptions are common to the jobs that make an index.
// Points cost some bytes for each JPEG and save much of the decoding of a crop (docs/format.md).
type SeekOptions struct {
	NoSeek bool `json:"no_seek"` // note no seek points: a smaller dataset that decodes more slowly
}

// maxThreads is that of a loader. Queues are as long as a multiple of it, and made before any work.
// A number that was given by mistake is an error then, and not a million goroutines.
const maxThreads = 1024

// check refuses numbers that would cost memory or threads before anything else is looked at.
func (o Options) check() error {
	if o.Threads < 0 || o.Threads > maxThreads {
		return catalog.NewError(fault.KindArgument, "", "threads is %d (expected 1 to %d, or 0 for as many as the process may use)", o.Threads, maxThreads)
	}
	if err := o.Limits.Blocks().Check(); err != nil {
		return catalog.NewError(fault.KindArgument, "", "%v", err)
	}
	return nil
}

// threads goes by affinity and cgroups (processors.Cores): where a process may use two CPUs of 64, it is two.
func (o Options) threads() int {
	if o.Threads > 0 {
		return o.Threads
	}
	return processors.Cores()
}

// PackConfig asks for a packed dataset. Of a manifest, Root is where relative paths begin; "": beside the manifest.
// Zero values are defaults. Paths in it are of the process's working directory.
type PackConfig struct {
	Options
	RecodeOptions
	SeekOptions
	ContainerOptions
	Source      string `json:"source"`      // a class folder, a list of files (*.csv, *.jsonl, *.ndjson, *.parquet), or containers
	Destination string `json:"destination"` // a directory that does not exist yet, or a URL
	ShardBytes  int64  `json:"shard_bytes"` // 0: 256 MB
	Overwrite   bool   `json:"overwrite"`   // replace a packed dataset at destination
	OnFault     string `json:"on_fault"`    // "keep" (default) or "raise"
	AllowEmpty  bool   `json:"allow_empty"` // class folders without an image are fine
	PathColumn  string `json:"path_column"` // manifests; "": "path", else "file_name"
	LabelColumn string `json:"label_column"`

	Storage remote.Storage `json:"-"` // of a Source and a Destination that are URLs
}

// IndexConfig asks for an index of a class folder or of containers in place.
// An index in place copies no image, so that nothing of an image can be changed here.
type IndexConfig struct {
	Options
	SeekOptions
	ContainerOptions
	Source     string `json:"source"`
	IndexDir   string `json:"index_dir"` // of a class folder; "": in the folder itself
	Out        string `json:"out"`       // of containers; "": beside them
	OnFault    string `json:"on_fault"`
	AllowEmpty bool   `json:"allow_empty"`

	Storage remote.Storage `json:"-"` // of containers that have URLs
}

// The size of a shard where none is given, and the least.
const (
	// Small enough to be copied in one go, and large enough that a million images are some hundred files.
	defaultShardBytes = 256_000_000
	// tar writes records of 20 blocks, its default blocking factor (POSIX, pax), and fills the last one up. A shard
	// is no shorter than that.
	minShardBytes = 20 * formats.TarBlock
)

// checkFaultPolicy takes "" for KeepFaults: of millions of files from elsewhere some are always bad.
func checkFaultPolicy(policy string) error {
	switch policy {
	case "", KeepFaults, RaiseFaults:
		return nil
	}
	return catalog.NewError(fault.KindArgument, "", "on_fault is %.40q (expected %q or %q)", policy, KeepFaults, RaiseFaults)
}

// Summary is what a finished job says.
// It says what the manifest says, and what only this run knows: faults, seconds, warnings.
type Summary struct {
	Destination string                      `json:"destination"`
	Kind        string                      `json:"kind"`
	Rows        int64                       `json:"rows"`
	Classes     int                         `json:"classes"`
	Shards      int                         `json:"shards"`
	Bytes       int64                       `json:"bytes"`      // encoded images
	SeekBytes   int64                       `json:"seek_bytes"` // seek points beside them
	SeekShare   float64                     `json:"seek_share"` // of Bytes
	Seconds     float64                     `json:"seconds"`
	Fingerprint string                      `json:"fingerprint"`
	Counts      map[string]map[string]int64 `json:"counts"`
	Faults      Faults                      `json:"faults"`
	Lossy       string                      `json:"lossy,omitempty"`          // how images were re-encoded
	Reencoded   int64                       `json:"reencoded,omitempty"`      // so many of them
	ToBaseline  int64                       `json:"to_baseline,omitempty"`    // files made baseline without loss
	Pillow      int64                       `json:"through_pillow,omitempty"` // images that Pillow decoded, stored without loss
	Raw         *catalog.RawImages          `json:"raw,omitempty"`            // stored as decoded pixels
	Warnings    []string                    `json:"warnings,omitempty"`       // of the source, and of what was left behind
}

// Faults lists what is wrong, up to a bound, and counts all of it.
// Records come in the order of the dataset, so the ones that are listed are the same in each run.
type Faults struct {
	Total  int64   `json:"total"`
	Listed []Fault `json:"listed"`
}

// Fault is one file that is no good image.
// Verdict and reason are the decoder's; file and offset are where a person would look.
type Fault struct {
	Record  int64  `json:"record"`
	File    string `json:"file"`
	Offset  int64  `json:"offset"` // in the file, -1 where unknown
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
}

// maxListedFaults bounds what a job keeps of each kind of finding, and prints.
const maxListedFaults = 1000

// add takes what a flow or a job found, in the order of the dataset.
func (f *Faults) add(fault Fault) {
	f.Total++
	// A folder of a million wrong files is to fill no memory with sentences.
	if len(f.Listed) < maxListedFaults {
		f.Listed = append(f.Listed, fault)
	}
}
