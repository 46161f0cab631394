// Package learned keeps the seek points of JPEG files that are in no index. They are noted while an image is decoded,
// and kept in package cache for the next epoch, the next rank and the next run. If an index lies beside the files
// (package beside), its points are used and nothing is learned.
//
// Points are found by the file's path, size and time, or for bytes without a path by their content. They are valid only
// for bytes with one CRC-32C, which is compared at each use. So if a file was replaced and kept its size and time, it
// is decoded without points, and they are learned again.
// The package does not know threads, datasets or pixels.
package learned
