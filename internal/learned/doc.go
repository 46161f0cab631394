// Package learned keeps the seek points of JPEG files that no index has: they are noted while an image is
// decoded, and kept in package cache for the next epoch, the next rank and the next run. Where an index
// lies beside the files (package beside) its points are used, and nothing is learned.
//
// Points are found by the file's path, size and time, or for bytes without a path by their content, and
// hold for bytes of one CRC-32C alone, which is compared whenever they are used: a file that was
// replaced with its size and time kept has other bytes, is decoded without points, and is learned anew.
// The package knows nothing of threads, datasets or pixels.
package learned
