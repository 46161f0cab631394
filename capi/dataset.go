package main

import (
	"fmt"
	"sync"

	"github.com/headrace/headrace/internal/blocks"
	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/limits"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/store"
	"github.com/headrace/headrace/mmap"
	"github.com/headrace/headrace/native"
)

// datasetConfig is the configuration of hr_dataset_open. docs/c-abi.md says what each key means.
type datasetConfig struct {
	sourceConfig
	Backend   string        `json:"backend"`
	VerifyCRC *bool         `json:"verify_crc"`
	Limits    limits.Limits `json:"limits"`
	// FetchAhead is for loaders that give none.
	FetchAhead int64 `json:"fetch_ahead"`
	// Cache is the directory for what is fetched from a store; empty: none.
	Cache     pathjson.Text `json:"cache"`
	CacheSize int64         `json:"cache_size"`
}

// backends are the ways to read records. A mapping cannot be guarded against a file that is cut
// while C decodes from it. Reading into memory was measured to cost no more per image, because the
// bytes are then in the cache where the checksum and the decoder need them. So only those who ask
// get a mapping.
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

	cache      *parts.Cache // the cache of what is fetched; nil without one
	cacheBytes int64
	warning    string // why there is no cache

	mu     sync.RWMutex // reads of samples share it; open and close of store do not
	store  *store.Store // for hr_dataset_read, opened by its first call
	kept   *parts.User  // the cache as those reads use it
	closed bool
}

func openDataset(c datasetConfig) (*dataset, error) {
	backend, ok := backends[c.Backend]
	if !ok {
		return nil, argument(fault.Argument("backend", c.Backend, `"auto", "mmap" or "pread"`))
	}
	d := &dataset{backend: backend, verifyCRC: c.VerifyCRC == nil || *c.VerifyCRC, limits: c.Limits.Native(), ahead: c.FetchAhead}
	d.blocks = c.Limits.Blocks()
	err := d.blocks.Check()
	if err != nil {
		return nil, argument(err.Error())
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

// keep opens the cache, or notes why there is none.
func (d *dataset) keep(c *datasetConfig) (err error) {
	d.cacheBytes = c.CacheSize
	d.cache, d.warning, err = parts.Open(string(c.Cache), c.CacheSize)
	return planError(err)
}

// useDataset returns the dataset of a handle with a reference of the caller's, so another thread
// may close the handle meanwhile.
func useDataset(h int64) (*dataset, error) {
	return find(&handles, h, func(d *dataset) { d.Retain() })
}

func (d *dataset) close() error {
	d.mu.RLock()
	if d.store != nil {
		d.store.Stop() // a wait for a store of objects may be long
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

// read calls take with the encoded bytes of sample i. The bytes come by pread. Go must not touch
// mapped bytes, because a file that is cut meanwhile would raise a signal.
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
	data, again := view.Bytes(), ""
	found := native.CRC32C(0, data)
	if d.verifyCRC && s.HasCRC && found != s.CRC32C {
		anew, ok, err := d.store.ReadAnew(s, &buffer)
		if err != nil {
			return err
		}
		if ok {
			data, again = anew.Bytes(), store.FetchedAgain
			found = native.CRC32C(0, data)
		}
	}
	if d.verifyCRC && s.HasCRC && found != s.CRC32C {
		path, _ := d.Path(i)
		key, _ := d.Key(i)
		return &catalog.Error{Kind: fault.KindChecksum, File: path, Record: i, Key: key, Offset: s.Offset,
			Text: fault.Differs("the record's CRC-32C differs", fmt.Sprintf("%08x", s.CRC32C), fmt.Sprintf("%08x", found)) + again}
	}
	if s.Pixels != nil {
		if data, err = s.Pixels.PPM(data); err != nil {
			return err
		}
	}
	return take(data)
}

// knownLength returns what the index says of the length of the bytes that read gives. It is 0 if
// the index does not say, or if the length is more than may be read.
func (d *dataset) knownLength(i int64) int64 {
	s, err := d.Sample(i)
	if err != nil || s.Pixels != nil || s.Length > int64(d.limits.MaxRecordBytes) {
		return 0
	}
	return max(s.Length, 0)
}

func (d *dataset) openStore() (err error) {
	// A read that hangs holds its share of the lock for as long. Asking for the whole lock would
	// then stop every other read.
	d.mu.RLock()
	ready := d.store != nil || d.closed
	d.mu.RUnlock()
	if ready {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.store == nil && !d.closed {
		d.store, err = store.Open(d.Dataset, store.Options{Options: mmap.Options{Backend: mmap.Pread}, MaxRecordBytes: int64(d.limits.MaxRecordBytes),
			Blocks: d.blocks, Unverified: !d.verifyCRC})
		if err == nil && d.cache != nil {
			d.kept = d.cache.Join(parts.Plan{Bytes: d.cacheBytes, Dataset: d.Fingerprint()})
			d.store.Keep(d.kept)
		}
	}
	return err
}
