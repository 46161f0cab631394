package transform

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/native"
)

// timmPolicies are the first words of configurations of timm's AutoAugment.
var timmPolicies = map[string]int32{"v0": native.TimmAutoV0, "v0r": native.TimmAutoV0R,
	"original": native.TimmAutoOriginal, "originalr": native.TimmAutoOriginalR, "3a": native.TimmAuto3A}

// timmSets are what may follow "t"; timm's rand_augment_choices names them.
var timmSets = map[string]int32{"3a": native.TimmRand3A, "3aw": native.TimmRand3AWeighted, "weights": native.TimmRandWeighted}

// timmSections are the keys that may follow each first word. The value is true if timm makes an int of the number,
// which refuses a fraction. AugMix's "b" is missing: it blends one chain after the other in bytes, which gives other
// pixels than the sum of all chains that native makes (AugMixAugment._apply_blended).
var timmSections = map[string]map[string]bool{
	"rand":   {"m": true, "n": true, "p": false, "mstd": false, "mmax": true, "inc": true},
	"augmix": {"m": true, "w": true, "d": true, "a": false, "mstd": false},
	"auto":   {"mstd": false},
}

// timmConfig is a parsed configuration of timm.
type timmConfig struct {
	kind      string // "rand", "augmix" or "auto"
	policy    int32  // for "auto"
	set       int32  // the set of ops that "t" names
	chosen    bool   // whether "t" named a set
	numbers   map[string]float64
	translate float64
}

// readTimm reads a configuration as timm 1.0 writes it ("rand-m9-mstd0.5-inc1"). timm skips some of what it does not
// know and raises an error for the rest. Here all of it is refused.
func readTimm(config string) (timmConfig, *Error) {
	refuse := func(section, expected string) (timmConfig, *Error) {
		return timmConfig{}, &Error{Argument: "config", Text: fmt.Sprintf("is %q, with %q in it (expected %s)", config, section, expected)}
	}
	sections := strings.Split(config, "-")
	// These are timm's defaults (rand_augment_transform, augment_and_mix_transform in timm/data/auto_augment.py). A
	// translation is a share of the image: 0.45 there, and 0.3 for AugMix in transforms_factory.py.
	c := timmConfig{kind: sections[0], translate: 0.45,
		numbers: map[string]float64{"m": 10, "n": 2, "p": 0.5, "mstd": 0, "mmax": 10, "inc": 0, "w": 3, "d": 0, "a": 1}}
	switch policy, auto := timmPolicies[c.kind]; {
	case auto:
		c.kind, c.policy = "auto", policy
	case c.kind == "augmix":
		// A magnitude of AugMix is uniform unless mstd is given; timm writes that as an infinite deviation.
		c.numbers["m"], c.numbers["mstd"], c.translate = 3, math.Inf(1), 0.3
	case c.kind != "rand":
		return refuse(c.kind, `"rand", "augmix", "v0", "v0r", "original", "originalr" or "3a" first`)
	}
	for _, section := range sections[1:] {
		// timm/data/auto_augment.py, rand_augment_transform: "t" names a set, and every other key is followed by a
		// number.
		if name, ok := strings.CutPrefix(section, "t"); ok && c.kind == "rand" {
			if c.set, c.chosen = timmSets[name]; !c.chosen {
				return refuse(section, `"t3a", "t3aw" or "tweights"`)
			}
			continue
		}
		if expected := c.readSection(section); expected != "" {
			return refuse(section, expected)
		}
	}
	return c, nil
}

// readSection reads a key with its number, or returns what was expected. If a key is written twice, its last number is
// used, as in timm.
func (c *timmConfig) readSection(section string) (expected string) {
	// timm splits a section in the same way (re.split(r'(\d.*)', c)).
	at := strings.IndexAny(section, "0123456789")
	if at < 0 {
		return "a key with a number"
	}
	whole, ok := timmSections[c.kind][section[:at]]
	if !ok {
		return "a number behind one of " + strings.Join(slices.Sorted(maps.Keys(timmSections[c.kind])), ", ")
	}
	number, err := strconv.ParseFloat(section[at:], 64)
	// Any bound below 2^31 would do, because the numbers become int32.
	if err != nil || number > 1e6 || whole && number != math.Trunc(number) {
		return "a number that is not too large, a whole one but for p, a and mstd"
	}
	c.numbers[section[:at]] = number
	return ""
}

// buildTimm makes the op of timm's auto_augment argument.
func buildTimm(v map[string]value) (native.Op, *Error) {
	op := native.Timm{Filter: filterOf(v), Fill: fillOf(v)}
	// If no filter is named, timm draws the filter of each warp from bilinear and bicubic.
	if v["interpolation"].isNull {
		op.Filter = native.FilterDrawn
	}
	c, err := readTimm(v["config"].text)
	if err != nil {
		return nil, err
	}
	numbers, layers := c.numbers, c.numbers["n"]
	// timm takes more than 100 for infinite here, and then draws magnitudes uniformly.
	if numbers["mstd"] > 100 && c.kind == "rand" || math.IsInf(numbers["mstd"], 1) {
		numbers["mstd"] = -1 // uniform
	}
	if numbers["mmax"] == 0 { // as in timm, 0 means none
		numbers["mmax"] = 10
	}
	switch {
	case c.kind == "auto":
		c.set, layers = c.policy, 0
	case c.kind == "augmix":
		c.set, layers = native.TimmAugmix, numbers["w"]
	case !c.chosen && numbers["inc"] != 0:
		c.set = native.TimmRandIncreasing
	case !c.chosen:
		c.set = native.TimmRand
	}
	op.Set, op.Layers, op.Magnitude, op.Depth = c.set, int32(layers), int32(numbers["m"]), int32(numbers["d"])
	if given := v["translate_pct"]; !given.isNull {
		c.translate = given.numbers[0]
	}
	// timm compares p with a number in 0..1, so more than 1 means always.
	op.Probability, op.Deviation, op.Most = min(numbers["p"], 1), numbers["mstd"], numbers["mmax"]
	op.Translation, op.Alpha = c.translate, numbers["a"]
	return op, nil
}

// buildAugMix makes torchvision's AugMix, whose chains are one op of the plan and many of an image's list. The contents
// of the chains are drawn for each image, so the bound is checked for the longest chains that may be drawn.
func buildAugMix(v map[string]value) (native.Op, *Error) {
	op := native.AugMix{Severity: v["severity"].integer(0), Chains: v["mixture_width"].integer(0),
		Depth: max(0, v["chain_depth"].integer(0)), AllOps: v["all_ops"].on(), Fills: !v["fill"].isNull,
		Version: versionOf(v), Alpha: v["alpha"].numbers[0], Filter: filterOf(v), Fill: fillOf(v)}
	// A depth of 0 or less is drawn from 1 to 3 (AugMix.forward), so 3 has to fit. Each chain has an end, and the whole
	// has a beginning and an end.
	if depth := max(op.Depth, 3); op.Chains*(depth+1)+2 > native.MaxPixelOps {
		return nil, &Error{Argument: "chain_depth", Text: fmt.Sprintf("is %d with a mixture_width of %d (expected at most %d ops in all chains, with one more for each)", op.Depth, op.Chains, native.MaxPixelOps-2)}
	}
	return op, nil
}
