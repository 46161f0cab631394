// A module of its own: who builds Headrace needs no bindings of NVML.
module github.com/headrace/headrace/bench/utilisation

go 1.26.0

require github.com/NVIDIA/go-nvml v0.13.4-1
