package main

import (
	"encoding/json"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/formats"
	"github.com/headrace/headrace/internal/pack"
	"github.com/headrace/headrace/internal/parts"
	"github.com/headrace/headrace/internal/pathjson"
	"github.com/headrace/headrace/internal/remote"
	"github.com/headrace/headrace/internal/scan"
)

// sourceConfig says which samples there are. Exactly one of Path, Paths, Pairs, Parts, Containers,
// Array and Located says it.
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

	cache      *parts.Cache // for a Path that is a URL; nil: none
	cacheBytes int64
	mostBlock  int64 // from the limits
}

// pairsConfig says where pairs of images are: two folders, how the stems of their files end beyond
// what a pair has in common, what the second image is called, and whether files without a partner
// are left out.
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

// containerConfig says which containers of others there are, and what in them is image and label.
// If Containers are given, Path is not.
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

// containers returns the paths and patterns of containers.
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
	storage = storage.Kept()
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
	options := c.scanOptions(storage)
	if c.IndexDir != "" || c.Root != "" {
		d, err := scan.Open(string(c.Path), options)
		return pack.NoteAdded(d, string(c.IndexDir), err)
	}
	found, err := pack.FindList(string(c.Path), c.Split, true)
	if err != nil {
		return nil, err
	}
	options.Split = found.Split // empty if it chose the folder
	if found.List == "" {
		d, err := scan.Open(found.Dir, options)
		if err == nil && d.Kind() == catalog.Listed && found.Ignored != "" {
			d.Warn(found.Warning(d.Classes()))
		}
		return pack.NoteAdded(d, "", err)
	}
	if options.Given() {
		return nil, scan.NoContainer(string(c.Path), catalog.Listed, options.Split)
	}
	return pack.OpenList(found.Dir, found.List)
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
