package pack

import (
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/limits"
	"github.com/headrace/headrace/internal/processors"
	"github.com/headrace/headrace/internal/remote"
)

// These say what to do with files that are no good images.
// Neither leaves a sample out, so the dataset has as many samples as its source.
const (
	KeepFaults  = "keep"  // they stay in the dataset with their verdict, and are listed
	RaiseFaults = "raise" // the first one ends the job
)

// Options are common to all jobs; zero values are the defaults.
// They are read from JSON of the C ABI, which refuses unknown members.
type Options struct {
	Threads int           `json:"threads"` // 0: as many as the process may use
	Limits  limits.Limits `json:"limits"`
}

// SeekOptions are common to the jobs that make an index.
// Seek points cost some bytes for each JPEG and save much of the decoding of a crop (docs/format.md).
type SeekOptions struct {
	NoSeek bool `json:"no_seek"` // note no seek points: a smaller dataset that decodes more slowly
}

// maxThreads is the same as for a loader. The queues' lengths are multiples of the number of threads, and are allocated
// first. So a mistyped number is an error and does not make a million goroutines.
const maxThreads = 1024

// check refuses numbers that would cost too much memory or too many threads, before anything else is done.
func (o Options) check() error {
	if o.Threads < 0 || o.Threads > maxThreads {
		return catalog.NewError(fault.KindArgument, "", "threads is %d (expected 1 to %d, or 0 for as many as the process may use)", o.Threads, maxThreads)
	}
	if err := o.Limits.Blocks().Check(); err != nil {
		return catalog.NewError(fault.KindArgument, "", "%v", err)
	}
	return nil
}

// threads respects affinity and cgroups (processors.Cores): it is two if a process may use two CPUs of 64.
func (o Options) threads() int {
	if o.Threads > 0 {
		return o.Threads
	}
	return processors.Cores()
}

// PackConfig asks for a packed dataset. Relative paths in a manifest begin at Root; "" means the manifest's folder.
// Zero values are defaults. Relative paths in it begin at the process's working directory.
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

	Storage remote.Storage `json:"-"` // for a Source or Destination that is a URL
}

// IndexConfig asks for an index of a class folder or of containers in place.
// An index in place copies no image, so it has no options that change images.
type IndexConfig struct {
	Options
	SeekOptions
	ContainerOptions
	Source     string `json:"source"`
	IndexDir   string `json:"index_dir"` // for a class folder; "": the folder itself
	Out        string `json:"out"`       // for containers; "": beside them
	OnFault    string `json:"on_fault"`
	AllowEmpty bool   `json:"allow_empty"`

	Storage remote.Storage `json:"-"` // for containers that have URLs
}

// These are the size of a shard if none is given, and the least size.
const (
	// This is small enough to be copied in one go, and large enough that a million images take only some hundred files.
	defaultShardBytes = 256_000_000
	// tar writes records of 20 blocks, its default blocking factor (POSIX, pax), and fills up the last one. So no shard is
	// shorter than that.
	minShardBytes = 20 * formats.TarBlock
)

// checkFaultPolicy takes "" for KeepFaults, because among millions of files from elsewhere some are always bad.
func checkFaultPolicy(policy string) error {
	switch policy {
	case "", KeepFaults, RaiseFaults:
		return nil
	}
	return catalog.NewError(fault.KindArgument, "", "on_fault is %.40q (expected %q or %q)", policy, KeepFaults, RaiseFaults)
}

// Summary is the result of a finished job.
// It has what the manifest says, and what only this run knows: faults, seconds, warnings.
type Summary struct {
	Destination string                      `json:"destination"`
	Kind        string                      `json:"kind"`
	Rows        int64                       `json:"rows"`
	Classes     int                         `json:"classes"`
	Shards      int                         `json:"shards"`
	Bytes       int64                       `json:"bytes"`      // encoded images
	SeekBytes   int64                       `json:"seek_bytes"` // seek points, in addition
	SeekShare   float64                     `json:"seek_share"` // as a share of Bytes
	Seconds     float64                     `json:"seconds"`
	Fingerprint string                      `json:"fingerprint"`
	Counts      map[string]map[string]int64 `json:"counts"`
	Faults      Faults                      `json:"faults"`
	Lossy       string                      `json:"lossy,omitempty"`          // how images were re-encoded
	Reencoded   int64                       `json:"reencoded,omitempty"`      // number of re-encoded images
	ToBaseline  int64                       `json:"to_baseline,omitempty"`    // number of files made baseline without loss
	Pillow      int64                       `json:"through_pillow,omitempty"` // number of images that Pillow decoded, stored without loss
	Raw         *catalog.RawImages          `json:"raw,omitempty"`            // images that are stored as decoded pixels
	Warnings    []string                    `json:"warnings,omitempty"`       // about the source, and about files that are left
}

// Faults lists files with faults up to a limit, and counts all of them.
// Records come in the order of the dataset, so each run lists the same ones.
type Faults struct {
	Total  int64   `json:"total"`
	Listed []Fault `json:"listed"`
}

// Fault is one file that is no good image.
// Verdict and reason are the decoder's; file and offset say where a person should look.
type Fault struct {
	Record  int64  `json:"record"`
	File    string `json:"file"`
	Offset  int64  `json:"offset"` // in the file, -1 if unknown
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
}

// maxListedFaults is how many findings of each kind a job keeps and prints.
const maxListedFaults = 1000

// add adds a finding; findings come in the order of the dataset.
func (f *Faults) add(fault Fault) {
	f.Total++
	// The texts about a folder with a million bad files must not fill the memory.
	if len(f.Listed) < maxListedFaults {
		f.Listed = append(f.Listed, fault)
	}
}
