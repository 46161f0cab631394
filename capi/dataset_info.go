package main

import (
	"context"
	"maps"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/pathjson"
)

// summary is the answer of hr_dataset_info about the whole dataset.
func (d *dataset) summary() map[string]any {
	fields, classes := d.Fields(), d.Classes()
	if fields == nil {
		fields = []catalog.Field{}
	}
	if classes == nil {
		classes = []string{}
	}
	answer := map[string]any{
		"rows": d.Len(), "classes": classes, "kind": d.Kind().String(),
		"fingerprint": d.Fingerprint(), "fields": fields, "shards": len(d.Shards()),
		"backend": d.backend.String(), "path": pathjson.Text(d.Root()), "bytes": bytesOf(d.Dataset),
	}
	if m := d.Manifest(); m != nil {
		answer["counts"], answer["lossy"], answer["created_by"] = m.Counts, m.Lossy, m.CreatedBy
		answer["reencoded"], answer["to_baseline"] = m.Reencoded, m.ToBaseline
		if m.Pillow > 0 {
			answer["through_pillow"] = m.Pillow
		}
		if m.Raw != nil {
			answer["raw"] = m.Raw
		}
		answer["seek_bytes"], answer["seek_share"] = m.Seek.Bytes(), m.SeekShare()
	}
	if source := d.Source(); source != nil {
		answer["source"], answer["warnings"] = source, append([]string{}, d.Warnings()...)
	}
	if said := d.Warnings(); d.Source() == nil && len(said) > 0 { // for a list of files
		answer["warnings"] = said
	}
	if source := d.ArraySource(); source != nil {
		answer["source"] = source
	}
	if d.warning != "" {
		answer["warnings"] = []string{d.warning}
	}
	if d.Away() {
		answer["away"], answer["fetched"] = true, d.fetchedSoFar()
	}
	if d.Parts() != nil {
		parts := []map[string]any{}
		for _, part := range d.Parts() {
			parts = append(parts, map[string]any{"rows": part.Len(), "kind": part.Kind().String(), "path": pathjson.Text(part.Root())})
		}
		answer["parts"] = parts
	}
	return answer
}

// fetchedSoFar returns what was fetched from the store by opening the dataset, by reading samples
// of it, and by its loaders.
func (d *dataset) fetchedSoFar() map[string]any {
	counts, rate, hits := d.Fetched().InAll()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return map[string]any{
		"requests": counts.Requests, "bytes": counts.Bytes, "hits": hits + d.kept.Stats().Hits, "retries": counts.Retries,
		"hedges": counts.Hedges, "bytes_per_second": rate, "waited_s": counts.Waited.Seconds(),
	}
}

// bytesOf returns the sum of the samples' lengths, or -1 if nobody has added them up.
func bytesOf(d *catalog.Dataset) int64 {
	if m := d.Manifest(); m != nil {
		return m.Bytes
	}
	if d.Parts() == nil {
		if d.Kind() == catalog.Arrays || d.Kind() == catalog.InMemory {
			s, _ := d.Sample(0)
			return d.Len() * int64(s.Width) * int64(s.Height) * int64(s.Channels)
		}
		return -1
	}
	sum := int64(0)
	for _, part := range d.Parts() {
		bytes := bytesOf(part)
		if bytes < 0 {
			return -1
		}
		sum += bytes
	}
	return sum
}

// sample is the answer of hr_dataset_info about one sample.
func (d *dataset) sample(i int64) (map[string]any, error) {
	s, err := d.Sample(i)
	if err != nil {
		return nil, err
	}
	answer, err := d.names(i)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, f := range d.Fields() {
		value, err := d.value(context.Background(), i, f.Name)
		if err != nil {
			return nil, err
		}
		values[f.Name] = catalog.ValueToJSON(value)
	}
	maps.Copy(answer, map[string]any{
		"label": s.Label, "offset": s.Offset, "length": s.Length,
		"width": s.Width, "height": s.Height, "channels": s.Channels, "orientation": s.Orientation,
		"codec": catalog.CodecName(s.Codec), "sampling": catalog.SamplingName(s.Sampling),
		"process": catalog.ProcessName(s.Process), "crc32c": s.CRC32C, "verdict": s.Verdict.String(), "seek_length": s.Seek.Length,
		"fields": values,
	})
	if file := d.Holder(i).SeekFile(); file != nil && s.Seek.Length > 0 {
		answer["seek_path"], answer["seek_offset"] = pathjson.Text(file.Path()), s.Seek.Offset
	}
	return answer, nil
}

// names returns a sample's key and path, with which answers about it begin.
func (d *dataset) names(i int64) (map[string]any, error) {
	key, err := d.Key(i)
	if err != nil {
		return nil, err
	}
	path, err := d.Path(i)
	if err != nil {
		return nil, err
	}
	return map[string]any{"key": key, "path": pathjson.Text(path)}, nil
}
