package main

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/scan"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// datasetConfig is the configuration of hr_dataset_open.
type datasetConfig struct {
	sourceConfig
	Backend   string      `json:"backend"`
	VerifyCRC *bool       `json:"verify_crc"`
	Limits    *limitsJSON `json:"limits"`
	// FetchAhead is that of loaders which do not say.
	FetchAhead int64 `json:"fetch_ahead"`
	// Cache is the directory of what is fetched from a store; empty: none.
	Cache     pathjson.Text `json:"cache"`
	CacheSize int64         `json:"cache_size"`
}

// sourceConfig says which samples there are: one of Path, Paths, Pairs, Parts, Containers, Array and Locations does.
type sourceConfig struct {
	Path     pathjson.Text        `json:"path"`
	Paths    []pathjson.Text      `json:"paths"`
	Pairs    *pairsConfig         `json:"pairs"`
	Parts    []sourceConfig       `json:"parts"`
	Labels   []int64              `json:"labels"`
	Classes  []string             `json:"classes"`
	Array    *catalog.ArrayConfig `json:"array"`
	Located  *scan.Locations      `json:"locations"`
	IndexDir pathjson.Text        `json:"index_dir"`
	Storage  json.RawMessage      `json:"storage"` // of a Path that is a URL
	containerConfig

	cache      *parts.Cache // of a Path that is a URL; nil: none
	cacheBytes int64
	mostBlock  int64 // of the limits
}

// pairsConfig says where pairs of images are: two folders, what ends their files' stems beside what those
// have in common, what the second image is called, and whether files without a partner are left out.
type pairsConfig struct {
	First    pathjson.Text    `json:"first"`
	Second   pathjson.Text    `json:"second"`
	Field    string           `json:"field"`
	Suffixes [2]pathjson.Text `json:"suffixes"`
	Skip     bool             `json:"skip"`
}

func (c *pairsConfig) open() (*catalog.Dataset, error) {
	return catalog.FromPairs(catalog.PairsConfig{First: string(c.First), Second: string(c.Second), Field: c.Field,
		PairRule: formats.PairRule{Suffixes: [2]string{string(c.Suffixes[0]), string(c.Suffixes[1])}, Skip: c.Skip}})
}

// containerConfig says which containers of others there are, and what of them is image and label. Where
// Containers are given, Path is not.
type containerConfig struct {
	Containers []pathjson.Text `json:"containers"`
	Format     string          `json:"format"`
	Image      string          `json:"image"`
	Label      string          `json:"label"`
	Fields     []string        `json:"fields"`
	Split      string          `json:"split"`
	Root       pathjson.Text   `json:"root"`
	Inspect    bool            `json:"inspect"`
}

func (c *sourceConfig) scanOptions(storage remote.Storage) scan.Options {
	return scan.Options{
		Options: catalog.Options{IndexDir: string(c.IndexDir), Root: string(c.Root), Storage: storage, Cache: c.cache, CacheBytes: c.cacheBytes},
		Format:  c.Format, Image: c.Image, Label: c.Label, Fields: c.Fields, Classes: c.Classes, Split: c.Split, Inspect: c.Inspect, MostBlock: c.mostBlock,
	}
}

// containers are the paths and patterns of containers.
func (c *containerConfig) containers() []string {
	list := make([]string, len(c.Containers))
	for i, path := range c.Containers {
		list[i] = string(path)
	}
	return list
}

// open opens the samples, whatever they are read with.
func (c *sourceConfig) open() (*catalog.Dataset, error) {
	given := 0
	for _, one := range []bool{c.Path != "", c.Paths != nil, c.Pairs != nil, c.Parts != nil, c.Containers != nil, c.Array != nil, c.Located != nil} {
		if one {
			given++
		}
	}
	storage, err := remote.ParseStorage(c.Storage)
	if err != nil {
		return nil, err
	}
	switch {
	case given == 0:
		return nil, argument("path is missing")
	case given > 1:
		return nil, argument("path, paths, pairs, parts, containers, array and locations: several are given (expected one of them)")
	case c.Paths != nil:
		paths := make([]string, len(c.Paths))
		for i, path := range c.Paths {
			paths[i] = string(path)
		}
		return catalog.FromFiles(paths, c.Labels, c.Classes)
	case c.Pairs != nil:
		return c.Pairs.open()
	case c.Parts != nil:
		return c.concat()
	case c.Array != nil:
		return catalog.FromArrays(c.Array, c.Labels, c.Classes)
	case c.Located != nil:
		return scan.FromLocations(c.Located, c.Classes)
	case c.Containers != nil:
		return scan.OpenFiles(c.containers(), c.scanOptions(storage))
	}
	return scan.Open(string(c.Path), c.scanOptions(storage))
}

func (c *sourceConfig) concat() (*catalog.Dataset, error) {
	list := make([]*catalog.Dataset, 0, len(c.Parts))
	defer func() {
		for _, part := range list {
			part.Release() // the concatenation has references of its own
		}
	}()
	for i := range c.Parts {
		c.Parts[i].mostBlock = c.mostBlock
		part, err := c.Parts[i].open()
		if err != nil {
			return nil, err
		}
		list = append(list, part)
	}
	return catalog.Concat(list, c.Classes)
}

// limitsJSON is "limits", wherever it may be given; what is left out keeps its default.
type limitsJSON struct {
	MaxPixels       uint64 `json:"max_pixels"`
	MaxDecoderBytes uint64 `json:"max_decoder_bytes"`
	MaxRecordBytes  uint64 `json:"max_record_bytes"`
	MaxScanBlocks   uint64 `json:"max_scan_blocks"`
	MaxScans        uint32 `json:"max_scans"`
	MaxBlockBytes   int64  `json:"max_block_bytes"`
	MaxCachedBytes  int64  `json:"max_cached_bytes"`
}

// blocks are those of compressed blocks, which datasets alone have.
func (j *limitsJSON) blocks() (blocks.Limits, error) {
	if j == nil {
		return blocks.Limits{}, nil
	}
	l := blocks.Limits{Block: j.MaxBlockBytes, Cached: j.MaxCachedBytes}
	if err := l.Check(); err != nil {
		return l, argument(err.Error())
	}
	return l, nil
}

func (j *limitsJSON) limits() native.Limits {
	l := native.DefaultLimits()
	if j == nil {
		return l
	}
	for _, given := range []struct {
		value uint64
		into  *uint64
	}{{j.MaxPixels, &l.MaxPixels}, {j.MaxDecoderBytes, &l.MaxDecoderBytes},
		{j.MaxRecordBytes, &l.MaxRecordBytes}, {j.MaxScanBlocks, &l.MaxScanBlocks}} {
		if given.value != 0 {
			*given.into = given.value
		}
	}
	if j.MaxScans != 0 {
		l.MaxScans = j.MaxScans
	}
	return l
}

// backends are ways to read records. A mapping cannot be guarded against a file that is cut while
// C decodes from it, and reading into memory was seen to cost no more per image: the bytes lie in
// the cache where the checksum and the decoder want them. So a mapping is for those who ask.
var backends = map[string]mmap.Backend{
	"": mmap.Pread, "auto": mmap.Pread, "mmap": mmap.Mapped, "pread": mmap.Pread,
}

// dataset is the object behind a dataset's handle.
type dataset struct {
	*catalog.Dataset
	backend   mmap.Backend
	verifyCRC bool
	limits    native.Limits
	blocks    blocks.Limits
	ahead     int64 // bytes that loaders fetch ahead, 0 for their default

	cache      *parts.Cache // of what is fetched; nil without one
	cacheBytes int64
	warning    string // why there is none

	mu     sync.RWMutex // reads of samples share it; open and close of store do not
	store  *store.Store // for hr_dataset_read, opened by the first
	kept   *parts.User  // the cache, of those reads
	closed bool
}

func openDataset(c datasetConfig) (*dataset, error) {
	backend, ok := backends[c.Backend]
	if !ok {
		return nil, argument(fault.Argument("backend", c.Backend, `"auto", "mmap" or "pread"`))
	}
	d := &dataset{backend: backend, verifyCRC: c.VerifyCRC == nil || *c.VerifyCRC, limits: c.Limits.limits(), ahead: c.FetchAhead}
	var err error
	if d.blocks, err = c.Limits.blocks(); err != nil {
		return nil, err
	}
	c.mostBlock = d.blocks.Block
	if c.Cache != "" && remote.IsURL(string(c.Path)) {
		if err = d.keep(&c); err != nil {
			return nil, err
		}
		c.cache, c.cacheBytes = d.cache, d.cacheBytes
	}
	if d.Dataset, err = c.open(); err != nil {
		d.cache.Close()
		return nil, err
	}
	if c.Cache != "" && !remote.IsURL(string(c.Path)) && d.Away() {
		if err = d.keep(&c); err != nil {
			d.Release()
			return nil, err
		}
	}
	return d, nil
}

// keep opens the cache, or finds out why there is none.
func (d *dataset) keep(c *datasetConfig) (err error) {
	d.cacheBytes = c.CacheSize
	d.cache, d.warning, err = parts.Open(string(c.Cache), c.CacheSize)
	return planError(err)
}

// useDataset returns the dataset of a handle with a reference of the caller's, so that another
// thread may close the handle meanwhile.
func useDataset(h int64) (*dataset, error) {
	return find(&handles, h, func(d *dataset) { d.Retain() })
}

func (d *dataset) close() error {
	d.mu.RLock()
	if d.store != nil {
		d.store.Stop() // a store of objects may be waited for long
	}
	d.mu.RUnlock()
	within(closeGrace, func() {
		d.mu.Lock() // waits for reads of samples
		defer d.mu.Unlock()
		if d.store != nil {
			d.store.Close()
		}
		if !d.closed {
			d.kept.Leave()
			d.cache.Close()
		}
		d.closed = true
		d.Release()
	})
	return nil
}

// read calls take with the encoded bytes of sample i. The bytes come by pread: Go must not touch
// mapped ones, for a file cut meanwhile would be a signal.
func (d *dataset) read(i int64, take func([]byte) error) error {
	s, err := d.Sample(i)
	if err != nil {
		return err
	}
	if err := d.openStore(); err != nil {
		return err
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return fault.New(fault.KindClosed, "the dataset was closed")
	}
	var buffer mmap.Buffer
	defer buffer.Free()
	view, err := d.store.Read(s, &buffer)
	if err != nil {
		return err
	}
	data := view.Bytes()
	if found := native.CRC32C(0, data); d.verifyCRC && s.HasCRC && found != s.CRC32C {
		path, _ := d.Path(i)
		key, _ := d.Key(i)
		return &catalog.Error{Kind: fault.KindChecksum, File: path, Record: i, Key: key, Offset: s.Offset,
			Text: fault.Differs("the record's CRC-32C differs", fmt.Sprintf("%08x", s.CRC32C), fmt.Sprintf("%08x", found))}
	}
	if s.Pixels != nil {
		if data, err = s.Pixels.PPM(data); err != nil {
			return err
		}
	}
	return take(data)
}

func (d *dataset) openStore() (err error) {
	// A read that hangs shares the lock for as long; to ask for all of it would stop every other read.
	d.mu.RLock()
	ready := d.store != nil || d.closed
	d.mu.RUnlock()
	if ready {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.store == nil && !d.closed {
		d.store, err = store.Open(d.Dataset, store.Options{Options: mmap.Options{Backend: mmap.Pread}, MaxRecordBytes: int64(d.limits.MaxRecordBytes), Blocks: d.blocks})
		if err == nil && d.cache != nil {
			d.kept = d.cache.Join(parts.Plan{Bytes: d.cacheBytes, Dataset: d.Fingerprint()})
			d.store.Keep(d.kept)
		}
	}
	return err
}

// summary is the answer of hr_dataset_info about the whole.
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

// fetchedSoFar is what opening the dataset, and reading samples of it and its loaders, took of the store.
func (d *dataset) fetchedSoFar() map[string]any {
	counts, rate, hits := d.Fetched().InAll()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return map[string]any{
		"requests": counts.Requests, "bytes": counts.Bytes, "hits": hits + d.kept.Stats().Hits, "retries": counts.Retries,
		"hedges": counts.Hedges, "bytes_per_second": rate, "waited_s": counts.Waited.Seconds(),
	}
}

// bytesOf is the sum of the samples' lengths, -1 where nobody has added them up.
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
	key, err := d.Key(i)
	if err != nil {
		return nil, err
	}
	path, err := d.Path(i)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, f := range d.Fields() {
		value, err := d.FieldValue(i, f.Name)
		if err != nil {
			return nil, err
		}
		values[f.Name] = catalog.ValueToJSON(value)
	}
	return map[string]any{
		"key": key, "label": s.Label, "path": pathjson.Text(path), "offset": s.Offset, "length": s.Length,
		"width": s.Width, "height": s.Height, "channels": s.Channels, "orientation": s.Orientation,
		"codec": catalog.CodecName(s.Codec), "sampling": catalog.SamplingName(s.Sampling),
		"process": catalog.ProcessName(s.Process), "crc32c": s.CRC32C, "verdict": s.Verdict.String(), "seek_length": s.Seek.Length,
		"fields": values,
	}, nil
}
