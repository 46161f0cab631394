//go:build !linux

package mmap

func willNeed(int, int64, int64) {}
