package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/order"
	"github.com/headrace/headrace/internal/pipeline"
	"github.com/headrace/headrace/native"
)

// engine is the Loader with a consumer that does nothing with its batches.
type engine struct {
	loader *pipeline.Loader
	first  time.Duration
}

func newEngine(d *catalog.Dataset, o *order.Order) (*engine, error) {
	p, err := plan()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	l, err := pipeline.Open(pipeline.Config{Dataset: d, Recipe: pipeline.OneView(p), Order: o, Store: storage(),
		Threads: *decoders, VerifyCRC: true, Limits: native.DefaultLimits()})
	if err != nil {
		return nil, err
	}
	e := &engine{loader: l}
	err = e.take()
	e.first = time.Since(begin)
	return e, err
}

// take reads one batch.
func (e *engine) take() error {
	for {
		b, err := e.loader.Next(time.Minute)
		if errors.Is(err, pipeline.ErrEnd) {
			continue
		}
		if err != nil {
			return err
		}
		if *sleep > 0 {
			time.Sleep(*sleep)
		}
		return b.Release()
	}
}

// rate makes n images. It begins with an empty pipeline, so that nothing counts that was made before.
func (e *engine) rate(n int64) (rate, error) {
	epoch, _ := e.loader.Position()
	if err := e.loader.SeekTo(epoch+2, 0); err != nil {
		return rate{}, err
	}
	batches := n / *batch
	made := func() int64 { return e.loader.Stats().Images }
	r, err := measure(batches**batch, made, func() error {
		for range batches {
			if err := e.take(); err != nil {
				return err
			}
		}
		return nil
	})
	e.rest()
	return r, err
}

// rest waits until the engine has worked ahead as far as it may and sleeps.
func (e *engine) rest() {
	for s := e.loader.Stats(); s.Ready < s.Open; s = e.loader.Stats() {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)
}

// costs prints what else the same Loader can tell.
func (e *engine) costs() error {
	before, from := allocated(), e.loader.Stats()
	for range 20 {
		if err := e.take(); err != nil {
			return err
		}
	}
	s := e.loader.Stats()
	fmt.Printf("allocations an image: %.4f\n", float64(allocated()-before)/float64(s.Images-from.Images))
	var ready time.Duration
	const looks = 20
	for range looks {
		for e.loader.Stats().Ready == 0 {
			time.Sleep(time.Millisecond)
		}
		begin := time.Now()
		b, err := e.loader.Next(0)
		if errors.Is(err, pipeline.ErrEnd) {
			continue
		}
		if err != nil {
			return err
		}
		ready += time.Since(begin)
		if err := b.Release(); err != nil {
			return err
		}
	}
	perImage := func(d time.Duration) time.Duration { return d / time.Duration(max(s.Images, 1)) }
	fmt.Printf("Next with a ready batch: %v\n", ready/looks)
	fmt.Printf("an image: %v in reads, %v in the C call; %v waiting for bytes, %v for the consumer\n",
		perImage(s.Reading), perImage(s.Decoding), perImage(s.ReadWait), perImage(s.SlotWait))
	fmt.Printf("stall of a batch: p50 %v, p99 %v, max %v; readers read ahead: %v\n", s.StallP50, s.StallP99, s.StallMax, s.ReadingAhead)
	return nil
}
