package catalog

import "fmt"

// The codes of native/core/facts.h as words, as `headrace info` and hr_dataset_info print them.
var (
	codecNames    = []string{"unknown", "jpeg", "png", "ppm", "raw", "webp", "bmp", "gif", "tiff"}
	samplingNames = []string{"unknown", "4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1", "grey", "other"}
	processNames  = []string{"unknown", "baseline", "progressive", "arithmetic", "lossless", "png", "png-interlaced", "raw",
		"webp", "webp-lossless", "rle", "lzw", "deflate", "raw-planes", "raw-planes-rgb"}
)

func nameOf(names []string, code uint8) string {
	if int(code) < len(names) {
		return names[code]
	}
	return fmt.Sprintf("code-%d", code) // an index of a later version may know more
}

// CodecName, SamplingName and ProcessName return what a code of Facts stands for.
func CodecName(code uint8) string    { return nameOf(codecNames, code) }
func SamplingName(code uint8) string { return nameOf(samplingNames, code) }
func ProcessName(code uint8) string  { return nameOf(processNames, code) }
