// Command utilisation prints how busy a GPU is, as NVML reports it: the percentage of the last sample period in which a
// kernel ran, one line for each interval, until its standard input ends. bench/gpu.py starts it beside a training.
//
//	cd bench/utilisation && go build -ldflags=-extldflags=-Wl,-z,lazy
//
// The flag is for linkers that bind all symbols at once: go-nvml leaves NVML's undefined until Init
// has loaded the driver's library.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("utilisation: ")
	uuid := flag.String("uuid", "", "the GPU's, as PyTorch has it; empty: the first GPU")
	every := flag.Duration("every", 200*time.Millisecond, "between two lines")
	flag.Parse()
	if *every <= 0 {
		log.Fatalf("-every %v: more than 0 was expected", *every)
	}
	device := open(*uuid)
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	ticks := time.NewTicker(*every)
	for {
		select {
		case <-ended:
			return
		case <-ticks.C:
			rates, code := device.GetUtilizationRates()
			check(code, "utilisation")
			fmt.Println(rates.Gpu)
		}
	}
}

// open finds a GPU by its UUID, because NVML numbers GPUs differently than CUDA_VISIBLE_DEVICES.
func open(uuid string) nvml.Device {
	check(nvml.Init(), "NVML") // if this fails, nothing else of NVML may be called
	if uuid == "" {
		device, code := nvml.DeviceGetHandleByIndex(0)
		check(code, "first GPU")
		return device
	}
	device, code := nvml.DeviceGetHandleByUUID(uuid)
	check(code, "GPU "+uuid)
	return device
}

func check(code nvml.Return, what string) {
	switch code {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		log.Fatalf("%s: libnvidia-ml.so.1 was not found: no driver is installed here", what)
	default:
		log.Fatalf("%s: NVML says error %d", what, code)
	}
}
