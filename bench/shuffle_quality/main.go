// Command shuffle_quality compares windowed shuffling with a full shuffle, on a set that lies on a disk like ImageNet:
// class after class. It reads no image, because only the order is measured.
//
//	go run ./bench/shuffle_quality [-samples n] [-classes n] [-batch n]
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"math"
	"slices"

	"github.com/headrace/headrace/internal/order"
)

var (
	samples = flag.Int64("samples", 1_281_167, "in the set")
	classes = flag.Int64("classes", 1000, "of equal size, one behind the other")
	batch   = flag.Int64("batch", 256, "samples a batch")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *samples < 2 || *classes < 1 || *batch < 1 || *batch > *samples {
		log.Fatal("shuffle_quality: samples, classes and batch must be positive, batch at most samples")
	}
	fmt.Printf("%d samples in %d classes, batches of %d; means over one epoch\n\n", *samples, *classes, *batch)
	fmt.Println("| window | classes in a batch | dispersion | neighbours of one class | together again | displacement | stretch |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, window := range []int64{1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 0} {
		if err := report(window); err != nil {
			log.Fatal(err)
		}
	}
}

func report(window int64) error {
	o, err := order.New(order.Config{Samples: *samples, BatchSize: *batch, Shuffle: true, Window: window})
	if err != nil {
		return err
	}
	epoch := func(number int64) []int64 {
		found := make([]int64, *samples)
		for position := range found {
			found[position], _ = o.At(number, int64(position))
		}
		return found
	}
	first, second := epoch(0), epoch(1)
	name, stretch := fmt.Sprint(window), fmt.Sprintf("%.0f", stretches(first, window))
	if window == 0 {
		name, stretch = "all", "1"
	}
	distinct, dispersion := mixture(first)
	fmt.Printf("| %s | %.1f | %.2f | %.5f | %.5f | %.3f | %s |\n", name, distinct, dispersion,
		neighbours(first), together(first, second), displacement(first, second), stretch)
	return nil
}

func class(sample int64) int64 { return sample * *classes / *samples }

// mixture returns the number of classes in a batch, and the index of dispersion of a class's number in a batch: its
// variance divided by its mean, which is 1 if batches are drawn at random.
func mixture(epoch []int64) (distinct, dispersion float64) {
	counts := make([]int64, *classes)
	squares, batches := 0.0, 0.0
	mean := float64(*batch) / float64(*classes)
	for begin := int64(0); begin+*batch <= int64(len(epoch)); begin += *batch {
		clear(counts)
		for _, sample := range epoch[begin : begin+*batch] {
			counts[class(sample)]++
		}
		for _, count := range counts {
			if count > 0 {
				distinct++
			}
			squares += (float64(count) - mean) * (float64(count) - mean)
		}
		batches++
	}
	return distinct / batches, squares / (batches * float64(*classes)) / mean
}

// neighbours returns the share of samples whose successor is of the same class.
func neighbours(epoch []int64) float64 {
	same := 0
	for i := range epoch[1:] {
		if class(epoch[i]) == class(epoch[i+1]) {
			same++
		}
	}
	return float64(same) / float64(len(epoch)-1)
}

// together returns how many of the other samples of a sample's batch are again in its batch in the next epoch.
func together(first, second []int64) float64 {
	home := make([]int64, len(second)) // the batch of each sample in the second epoch
	for position, sample := range second {
		home[sample] = int64(position) / *batch
	}
	again, all := 0.0, 0.0
	for group := range slices.Chunk(first, int(*batch)) {
		counts := map[int64]float64{}
		for _, sample := range group {
			counts[home[sample]]++
		}
		for _, count := range counts {
			again += count * (count - 1)
		}
		all += float64(len(group))
	}
	return again / all
}

// displacement returns how far a sample moves from one epoch to the next, as a share of the epoch; it is 1/3 for
// independent places.
func displacement(first, second []int64) float64 {
	was := make([]int, len(first))
	for position, sample := range first {
		was[sample] = position
	}
	sum := 0.0
	for position, sample := range second {
		sum += math.Abs(float64(position - was[sample]))
	}
	n := float64(len(first))
	return sum / n / n
}

// stretches returns the mean number of neighbours in a stretch that a window reads.
func stretches(epoch []int64, window int64) float64 {
	if window == 0 {
		return 1
	}
	count := 0
	for inside := range slices.Chunk(slices.Clone(epoch), int(window)) {
		slices.SortFunc(inside, cmp.Compare[int64])
		for i, sample := range inside {
			if i == 0 || inside[i-1] != sample-1 {
				count++
			}
		}
	}
	return float64(len(epoch)) / float64(count)
}
