package pack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/remote"
)

// Pack copies the images of a folder or manifest into a packed dataset, byte for byte unless c says otherwise.
// It checks the arguments first, then the source, then the destination, so that the cheaper check comes first.
func Pack(ctx context.Context, c PackConfig, t *Tracker) (Summary, error) {
	begin := time.Now()
	if err := c.Options.check(); err != nil {
		return Summary{}, err
	}
	if err := checkFaultPolicy(c.OnFault); err != nil {
		return Summary{}, err
	}
	if err := c.RecodeOptions.check(); err != nil {
		return Summary{}, err
	}
	if c.Destination == "" {
		return Summary{}, catalog.NewError(fault.KindArgument, "", "destination is missing")
	}
	// The whole source is listed before the destination is touched, because most mistakes are found here.
	c.mostBlock = c.Limits.MaxBlockBytes
	s, err := openSource(ctx, &c)
	if err != nil {
		return Summary{}, err
	}
	defer s.close()
	t.setTotal(s.total())
	o, err := newOutput(ctx, c.Destination, c.ShardBytes, c.Overwrite, c.Storage)
	if err != nil {
		return Summary{}, err
	}
	// From here on every way out leaves the destination as it was, or reports what is left there.
	o.raise, o.track, o.lossy = c.OnFault == RaiseFaults, t, c.lossy()
	if err := o.begin(s.fields()); err != nil {
		return Summary{}, o.abandon(err)
	}
	f := newFlow(s, c.Options, !c.NoSeek, t)
	f.recode = c.RecodeOptions
	if err := f.run(ctx, o.add); err != nil {
		return Summary{}, o.abandon(err)
	}
	summary, err := o.finish(s.classes())
	switch in := s.(type) {
	case interface{ warnings() []string }: // a folder or a list
		summary.Warnings = append(summary.Warnings, in.warnings()...)
	case *containers:
		// These are all warnings except the advice to pack, which was just done.
		summary.Warnings = append(summary.Warnings, slices.DeleteFunc(slices.Clone(in.dataset.Warnings()), func(w string) bool { return strings.Contains(w, "headrace pack") })...)
	}
	summary.Seconds = time.Since(begin).Seconds()
	return summary, err
}

// output is a packed dataset that is being made. The calls are newOutput, begin, add for each record, then finish or
// abandon.
// One goroutine uses it; others commit shards at the same time.
type output struct {
	to      destination
	shards  *shards
	index   *catalog.Writer
	seek    *seekFile
	faults  Faults
	lossy   string
	recoded [toBaseline + 1]int64 // number of files by what was done to them
	raw     catalog.RawImages
	pillow  int64 // number of images that Pillow decoded
	unread  int64 // number of further images that nobody can read
	why     string
	raise   bool
	track   *Tracker
}

// newOutput checks the place and begins there; it makes no file yet.
func newOutput(ctx context.Context, place string, shardBytes int64, overwrite bool, storage remote.Storage) (*output, error) {
	if shardBytes == 0 {
		shardBytes = defaultShardBytes
	}
	if shardBytes < minShardBytes {
		return nil, catalog.NewError(fault.KindArgument, "", "shard_bytes is %d (expected at least %d)", shardBytes, minShardBytes)
	}
	to, err := newDestination(ctx, place, overwrite, storage)
	if err != nil {
		return nil, err
	}
	seek := &seekFile{create: func() (catalog.Made, error) { return to.create(catalog.SeekFileName(0), 0) }}
	return &output{to: to, shards: newShards(to, shardBytes), seek: seek}, nil
}

// begin says which fields the records have.
// The fields must be known before the first row, because the index is written row by row.
func (o *output) begin(fields []catalog.Field) (err error) {
	if err := catalog.CheckFields(fields); err != nil {
		return catalog.NewError(fault.KindArgument, "", "%v", err)
	}
	// The final size is not known, so a store's parts have to be long enough for the largest index.
	file, err := o.to.create(catalog.IndexFileName(0), catalog.MaxIndexBytes)
	if err == nil {
		o.index, err = catalog.NewWriterTo(file, catalog.Packed, false, fields)
	}
	return err
}

// add writes one record; records come in the order of the dataset.
// An error ends the job; faults that are kept are not errors.
func (o *output) add(r *record) error {
	faults := int64(0)
	if r.faulty() {
		if o.raise {
			return faultError(r)
		}
		faults = 1
		o.faults.add(r.fault())
	}
	if r.unread != "" {
		if o.raise {
			return recordError(r, fault.KindUnsupported, "a further image: "+r.unread, nil)
		}
		if o.unread++; o.unread == 1 {
			o.why = fmt.Sprintf("of %s: %s", r.key, r.unread)
		}
	}
	row := rowOf(r)
	// The shard comes first, because it sets the record's place, which the index keeps.
	if err := o.shards.add(r, &row); err != nil {
		return err
	}
	var err error
	if row.Seek, err = o.seek.add(r.seek); err != nil {
		return err
	}
	if err := o.index.Append(&row); err != nil {
		return r.refused(err)
	}
	o.recoded[r.recoded]++
	if r.pillow {
		o.pillow++
	}
	o.pillow += r.further
	if r.raw {
		o.raw.Images++
		o.raw.Bytes += r.length
		o.raw.FromBytes += r.original
	}
	o.track.add(1, r.length, faults)
	return nil
}

// rowOf returns the index's row for a record, without its place; the caller adds that.
// Places, labels and facts are fixed-size columns, keys and fields are not (catalog.Row).
func rowOf(r *record) catalog.Row {
	return catalog.Row{
		Sample: catalog.Sample{Length: r.length, Label: r.label, Facts: r.facts, Verdict: r.verdict},
		Key:    r.key, Fields: r.fields,
	}
}

// faultError refuses a faulty file if the caller wants none in the dataset.
// The verdict decides its kind, so that a program can distinguish a truncated file from an unsupported one.
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
// Until publish everything can be undone; after it the dataset exists, and only a warning is possible.
func (o *output) finish(classes []string) (Summary, error) {
	m, err := o.write(classes)
	warning := ""
	if err == nil {
		warning, err = o.to.publish()
	}
	if err != nil {
		return Summary{}, o.abandon(err)
	}
	summary := summaryOf(o.to.path(), m, o.faults)
	if warning != "" {
		summary.Warnings = []string{warning}
	}
	if o.unread > 0 {
		summary.Warnings = append(summary.Warnings, fmt.Sprintf("further images of %d samples are read by nobody and keep their bytes, the first one %s", o.unread, o.why))
	}
	return summary, nil
}

// write ends shards and index and adds the manifest last, because without it nothing opens.
// If a shard was not committed, that is an error, and no manifest is written.
func (o *output) write(classes []string) (*catalog.Manifest, error) {
	if o.index == nil {
		return nil, catalog.NewError(fault.KindEmpty, o.to.path(), "no sample was added")
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
	// The shards are complete only now, because the last one was ended above.
	m.Index.Name, m.Shards, m.Classes = catalog.IndexFileName(0), o.shards.done, classes
	m.Reencoded, m.ToBaseline = o.recoded[reencoded], o.recoded[toBaseline]
	m.Pillow = o.pillow
	if o.raw.Images > 0 {
		m.Raw = &o.raw
	}
	if m.Reencoded > 0 { // otherwise every image is an original, whatever was asked for
		m.Lossy = o.lossy
	}
	data, err := encodeManifest(m, o.to.path())
	if err != nil {
		return nil, err
	}
	manifest, err := o.to.create(catalog.ManifestName, int64(len(data)))
	if err != nil {
		return nil, err
	}
	if _, err = manifest.Write(data); err == nil {
		err = manifest.Commit()
	}
	if err != nil {
		manifest.Abandon()
		return nil, catalog.IOError(manifest.Name(), "cannot write", err)
	}
	return m, nil
}

// abandon removes what was made, because of an error. It returns that error, with what could not be removed.
// Files are closed before the destination is cleared, which removes them by name.
func (o *output) abandon(why error) error {
	o.shards.abandon()
	o.seek.abandon()
	if o.index != nil {
		o.index.Abort()
	}
	clause := o.to.abandon()
	o.track.leaves(clause)
	return leftBehind(why, clause)
}

// summaryOf makes the job's result of the manifest, and adds the faults, which the manifest only counts.
// Listed is never nil, because JSON would have null where Python expects a list.
func summaryOf(destination string, m *catalog.Manifest, faults Faults) Summary {
	if faults.Listed == nil {
		faults.Listed = []Fault{}
	}
	return Summary{
		Destination: destination, Kind: m.Kind, Rows: m.Rows, Classes: len(m.Classes), Shards: len(m.Shards), Bytes: m.Bytes,
		SeekBytes: m.Seek.Bytes(), SeekShare: m.SeekShare(), Fingerprint: m.Fingerprint, Counts: m.Counts, Faults: faults,
		Lossy: m.Lossy, Reencoded: m.Reencoded, ToBaseline: m.ToBaseline,
		Pillow: m.Pillow, Raw: m.Raw,
	}
}
