package transform

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/native"
)

// timmPolicies are the first words of a configuration of timm's AutoAugment.
var timmPolicies = map[string]int32{"v0": native.TimmAutoV0, "v0r": native.TimmAutoV0R,
	"original": native.TimmAutoOriginal, "originalr": native.TimmAutoOriginalR, "3a": native.TimmAuto3A}

// timmSets are what may stand behind "t", which rand_augment_choices of timm names.
var timmSets = map[string]int32{"3a": native.TimmRand3A, "3aw": native.TimmRand3AWeighted, "weights": native.TimmRandWeighted}

// timmSections are the keys that may follow each first word; true where timm makes an int of the number,
// which refuses a fraction. AugMix's "b" is missing: it blends one chain after the other in bytes, which
// comes to other pixels than the sum of all chains that native makes (AugMixAugment._apply_blended).
var timmSections = map[string]map[string]bool{
	"rand":   {"m": true, "n": true, "p": false, "mstd": false, "mmax": true, "inc": true},
	"augmix": {"m": true, "w": true, "d": true, "a": false, "mstd": false},
	"auto":   {"mstd": false},
}

// buildTimm reads a configuration as timm 1.0 writes it ("rand-m9-mstd0.5-inc1").
func buildTimm(v map[string]value) (native.Op, *Error) {
	op := native.Timm{Filter: filterOf(v), Fill: fillOf(v)}
	// timm draws the filter of each warp from bilinear and bicubic where none is named.
	if v["interpolation"].isNull {
		op.Filter = native.FilterDrawn
	}
	config := v["config"].text
	refuse := func(section, expected string) (native.Op, *Error) {
		return nil, &Error{Argument: "config", Text: fmt.Sprintf("is %q, with %q in it (expected %s)", config, section, expected)}
	}
	sections := strings.Split(config, "-")
	kind := sections[0]
	policy, auto := timmPolicies[kind]
	if auto {
		kind = "auto"
	}
	// timm's defaults (rand_augment_transform, augment_and_mix_transform in timm/data/auto_augment.py), and of
	// translations as a share of the image: 0.45 there, of AugMix 0.3 in transforms_factory.py.
	numbers := map[string]float64{"m": 10, "n": 2, "p": 0.5, "mstd": 0, "mmax": 10, "inc": 0, "w": 3, "d": 0, "a": 1}
	translate := 0.45
	switch kind {
	case "augmix":
		// A magnitude of AugMix is uniform unless mstd is given, which timm writes as an infinite deviation.
		numbers["m"], numbers["mstd"], translate = 3, math.Inf(1), 0.3
	case "rand", "auto":
	default:
		return refuse(kind, `"rand", "augmix", "v0", "v0r", "original", "originalr" or "3a" first`)
	}
	set, chosen := int32(0), false
	for _, section := range sections[1:] {
		// timm/data/auto_augment.py, rand_augment_transform: "t" names a set, every other key has a number behind it.
		if name, ok := strings.CutPrefix(section, "t"); ok && kind == "rand" {
			if set, chosen = timmSets[name]; !chosen {
				return refuse(section, `"t3a", "t3aw" or "tweights"`)
			}
			continue
		}
		// timm splits a section so too (re.split(r'(\d.*)', c)).
		at := strings.IndexAny(section, "0123456789")
		if at < 0 {
			return refuse(section, "a key with a number")
		}
		whole, ok := timmSections[kind][section[:at]]
		if !ok {
			keys := make([]string, 0, len(timmSections[kind]))
			for key := range timmSections[kind] {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			return refuse(section, "a number behind one of "+strings.Join(keys, ", "))
		}
		number, err := strconv.ParseFloat(section[at:], 64)
		// Any bound below 2^31 would do: the numbers become int32.
		if err != nil || number > 1e6 || whole && number != math.Trunc(number) {
			return refuse(section, "a number that is not too large, a whole one but for p, a and mstd")
		}
		numbers[section[:at]] = number
	}
	// timm takes more than 100 for infinite there, and draws magnitudes evenly then.
	if numbers["mstd"] > 100 && kind == "rand" || math.IsInf(numbers["mstd"], 1) {
		numbers["mstd"] = -1 // uniform
	}
	if numbers["mmax"] == 0 { // as in timm, none
		numbers["mmax"] = 10
	}
	layers := numbers["n"]
	switch {
	case kind == "auto":
		set, layers = policy, 0
	case kind == "augmix":
		set, layers = native.TimmAugmix, numbers["w"]
	case !chosen && numbers["inc"] != 0:
		set = native.TimmRandIncreasing
	case !chosen:
		set = native.TimmRand
	}
	op.Set, op.Layers, op.Magnitude, op.Depth = set, int32(layers), int32(numbers["m"]), int32(numbers["d"])
	if given := v["translate_pct"]; !given.isNull {
		translate = given.numbers[0]
	}
	// timm compares p with a number in 0..1, so that more than 1 is always.
	op.Probability, op.Deviation, op.Most = min(numbers["p"], 1), numbers["mstd"], numbers["mmax"]
	op.Translation, op.Alpha = translate, numbers["a"]
	return op, nil
}

// buildAugMix makes torchvision's AugMix, whose chains are one op of the plan and many of an image's list.
func buildAugMix(v map[string]value) (native.Op, *Error) {
	op := native.AugMix{Severity: v["severity"].integer(0), Chains: v["mixture_width"].integer(0),
		Depth: max(0, v["chain_depth"].integer(0)), AllOps: v["all_ops"].on(), Fills: !v["fill"].isNull,
		Version: versionOf(v), Alpha: v["alpha"].numbers[0], Filter: filterOf(v), Fill: fillOf(v)}
	// A depth of 0 or less is drawn from 1 to 3 (AugMix.forward), so 3 is what has to fit. Each chain has an
	// end, and the whole a beginning and an end.
	if depth := max(op.Depth, 3); op.Chains*(depth+1)+2 > native.MaxPixelOps {
		return nil, &Error{Argument: "chain_depth", Text: fmt.Sprintf("is %d with a mixture_width of %d (expected at most %d ops in all chains, with one more for each)", op.Depth, op.Chains, native.MaxPixelOps-2)}
	}
	return op, nil
}
