// Package learned is the index of files that have none: seek points that were noted while an image was
// decoded, kept in package cache for the next time, the next rank and the next run. Of files with an index
// beside them (package beside) the points are that one's, and nothing is learned.
//
// Points are found by the file's path, size and time, or for bytes without a path by their content, and
// hold for bytes of one CRC-32C alone, which is compared whenever they are used: a file that was
// replaced with its size and time kept has other bytes, is decoded without points, and is learned anew.
// The package knows nothing of threads, datasets or pixels.
package learned
