package main

import (
	"fmt"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
	"github.com/headrace/headrace/internal/order"
)

// samplerConfig is the "sampler" of a loader: which samples an epoch draws from, and how often.
type samplerConfig struct {
	Kind string `json:"kind"`
	partConfig
	Parts   []partConfig `json:"parts"`
	Weights []float64    `json:"weights"`
	Times   int64        `json:"times"`
	Length  *int64       `json:"length"` // positions an epoch; without it, about as many as the dataset has samples
}

// partConfig is a list of samples, or `count` of them from `first` in steps of `stride`.
type partConfig struct {
	Indices []int64 `json:"indices"`
	First   int64   `json:"first"`
	Stride  int64   `json:"stride"`
	Count   int64   `json:"count"`
}

func (p *partConfig) part() order.Part {
	return order.Part{List: p.Indices, First: p.First, Stride: p.Stride, Count: p.Count}
}

// selection builds what the order draws from. Without a sampler it is nil: every sample once.
func (c *samplerConfig) selection(d *dataset) (*order.Selection, error) {
	if c == nil {
		return nil, nil
	}
	length := d.Len()
	if c.Length != nil {
		length = *c.Length
	}
	switch c.Kind {
	case "subset":
		return order.Subset(d.Len(), c.part())
	case "weighted":
		if int64(len(c.Weights)) != d.Len() {
			return nil, argument(fmt.Sprintf("sampler has %d weights (expected %d, one a sample)", len(c.Weights), d.Len()))
		}
		return order.Weighted(c.Weights, length)
	case "class_balanced":
		labels := make([]int64, d.Len())
		for i := range labels {
			sample, err := d.Sample(int64(i))
			if err != nil {
				return nil, err
			}
			labels[i] = sample.Label
		}
		return order.Balanced(labels, length)
	case "mix":
		parts := make([]order.Part, len(c.Parts))
		for i := range c.Parts {
			parts[i] = c.Parts[i].part()
		}
		if c.Parts == nil {
			parts = datasets(d)
		}
		return order.Mix(d.Len(), parts, c.Weights, length)
	case "repeated":
		if c.Length == nil {
			length = -1
		}
		return order.Repeated(d.Len(), c.Times, length)
	}
	return nil, argument(fault.Argument("sampler kind", c.Kind, `"subset", "weighted", "class_balanced", "mix" or "repeated"`))
}

// datasets returns the datasets that a concatenation was made of, each as a part.
func datasets(d *dataset) []order.Part {
	list := d.Parts()
	if list == nil {
		list = []*catalog.Dataset{d.Dataset}
	}
	parts, first := make([]order.Part, len(list)), int64(0)
	for i, one := range list {
		parts[i] = order.Part{First: first, Stride: 1, Count: one.Len()}
		first += one.Len()
	}
	return parts
}
