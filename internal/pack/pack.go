package pack

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

// Pack copies the images of a folder or manifest, byte for byte unless c asks otherwise, into a
// packed dataset.
func Pack(ctx context.Context, c PackConfig, t *Tracker) (Summary, error) {
	begin := time.Now()
	if err := c.Options.check(); err != nil {
		return Summary{}, err
	}
	if err := checkFaultPolicy(c.OnFault); err != nil {
		return Summary{}, err
	}
	if err := checkHere(c.Containers, c.Source, c.Destination); err != nil {
		return Summary{}, err
	}
	if err := c.RecodeOptions.check(); err != nil {
		return Summary{}, err
	}
	if c.Destination == "" {
		return Summary{}, catalog.NewError(fault.KindArgument, "", "destination is missing")
	}
	// The source is listed whole before the destination is touched: most mistakes are found here.
	s, err := openSource(&c)
	if err != nil {
		return Summary{}, err
	}
	defer s.close()
	t.setTotal(s.total())
	o, err := newOutput(c.Destination, c.ShardBytes, c.Overwrite)
	if err != nil {
		return Summary{}, err
	}
	o.raise, o.track, o.lossy = c.OnFault == RaiseFaults, t, c.lossy()
	if err := o.begin(s.fields()); err != nil {
		return Summary{}, err
	}
	f := newFlow(s, c.threads(), c.Limits.native(), !c.NoSeek, t)
	f.recode = c.RecodeOptions
	if err := f.run(ctx, o.add); err != nil {
		o.abandon()
		return Summary{}, err
	}
	summary, err := o.finish(s.classes())
	if in, ok := s.(*containers); ok {
		// All but the advice to do what was just done.
		summary.Warnings = slices.DeleteFunc(slices.Clone(in.dataset.Warnings()), func(w string) bool { return strings.Contains(w, "headrace pack") })
	}
	summary.Seconds = time.Since(begin).Seconds()
	return summary, err
}

// output is a packed dataset in the making: newOutput, begin, add for each record, then finish or
// abandon.
type output struct {
	partial *partial
	shards  *shards
	index   *catalog.Writer
	seek    *seekFile
	faults  Faults
	lossy   string
	recoded [toBaseline + 1]int64 // files by what became of them
	raw     catalog.RawImages
	raise   bool
	track   *Tracker
}

func newOutput(destination string, shardBytes int64, overwrite bool) (*output, error) {
	if shardBytes == 0 {
		shardBytes = defaultShardBytes
	}
	if shardBytes < minShardBytes {
		return nil, catalog.NewError(fault.KindArgument, "", "shard_bytes is %d (expected at least %d)", shardBytes, minShardBytes)
	}
	p, err := newPartial(destination, overwrite)
	if err != nil {
		return nil, err
	}
	seek := &seekFile{path: filepath.Join(p.dir, catalog.SeekFileName(0))}
	return &output{partial: p, shards: newShards(p.dir, shardBytes), seek: seek}, nil
}

// begin says which fields the records will have.
func (o *output) begin(fields []catalog.Field) (err error) {
	o.index, err = catalog.NewWriter(filepath.Join(o.partial.dir, catalog.IndexFileName(0)), catalog.Packed, fields)
	if err != nil {
		o.abandon()
	}
	return err
}

// add writes one record; records come in the order of the dataset.
func (o *output) add(r *record) error {
	faults := int64(0)
	if r.faulty() {
		if o.raise {
			return faultError(r)
		}
		faults = 1
		o.faults.add(r.fault())
	}
	row := rowOf(r)
	if err := o.shards.add(r, &row); err != nil {
		return err
	}
	var err error
	if row.Seek, err = o.seek.add(r.seek); err != nil {
		return err
	}
	if err := o.index.Append(&row); err != nil {
		return err
	}
	o.recoded[r.recoded]++
	if r.raw {
		o.raw.Images++
		o.raw.Bytes += r.length
		o.raw.FromBytes += r.original
	}
	o.track.add(1, r.length, faults)
	return nil
}

// rowOf is what the index keeps of a record; its place is added by who writes it.
func rowOf(r *record) catalog.Row {
	return catalog.Row{
		Sample: catalog.Sample{Length: r.length, Label: r.label, Facts: r.facts, Verdict: r.verdict},
		Key:    r.key, Fields: r.fields,
	}
}

// faultError refuses a faulty file where the caller wants no such file in a dataset.
func faultError(r *record) error {
	kinds := map[catalog.Verdict]fault.Kind{
		catalog.Truncated: fault.KindTruncated, catalog.Unsupported: fault.KindUnsupported, catalog.Limit: fault.KindLimit,
	}
	kind, ok := kinds[r.verdict]
	if !ok {
		kind = fault.KindBadImage
	}
	return &catalog.Error{Kind: kind, File: r.path, Record: r.seq, Key: r.key, Offset: r.offset, Text: r.reason}
}

// finish makes the dataset visible: index, manifest, directory, in this order.
func (o *output) finish(classes []string) (Summary, error) {
	m, err := o.write(classes)
	if err == nil {
		err = o.partial.publish()
	}
	if err != nil {
		o.abandon()
		return Summary{}, err
	}
	return summaryOf(o.partial.destination, m, o.faults), nil
}

// write ends shards and index and adds the manifest last: without it nothing opens.
func (o *output) write(classes []string) (*catalog.Manifest, error) {
	if o.index == nil {
		return nil, catalog.NewError(fault.KindEmpty, o.partial.destination, "no sample was added")
	}
	if err := o.shards.finish(); err != nil {
		return nil, err
	}
	seek, err := o.seek.finish()
	if err != nil {
		return nil, err
	}
	m, err := o.index.Finish()
	if err != nil {
		return nil, err
	}
	if m.Seek = seek; seek != nil {
		seek.Name = catalog.SeekFileName(0)
	}
	m.Index.Name, m.Shards, m.Classes = catalog.IndexFileName(0), o.shards.done, classes
	m.Reencoded, m.ToBaseline = o.recoded[reencoded], o.recoded[toBaseline]
	if o.raw.Images > 0 {
		m.Raw = &o.raw
	}
	if m.Reencoded > 0 { // else every image is an original, whatever was asked for
		m.Lossy = o.lossy
	}
	data, err := encodeManifest(m, o.partial.destination)
	if err != nil {
		return nil, err
	}
	return m, writeFile(filepath.Join(o.partial.dir, catalog.ManifestName), data)
}

func (o *output) abandon() {
	o.shards.abandon()
	o.seek.abandon()
	if o.index != nil {
		o.index.Abort()
	}
	o.partial.abandon()
}

// summaryOf tells the caller what the manifest says, and the faults that it only counts.
func summaryOf(destination string, m *catalog.Manifest, faults Faults) Summary {
	if faults.Listed == nil {
		faults.Listed = []Fault{}
	}
	return Summary{
		Destination: destination, Kind: m.Kind, Rows: m.Rows, Classes: len(m.Classes), Shards: len(m.Shards), Bytes: m.Bytes,
		SeekBytes: m.Seek.Bytes(), SeekShare: m.SeekShare(), Fingerprint: m.Fingerprint, Counts: m.Counts, Faults: faults,
		Lossy: m.Lossy, Reencoded: m.Reencoded, ToBaseline: m.ToBaseline,
		Raw: m.Raw,
	}
}
