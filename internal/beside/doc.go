// Package beside finds the index that `headrace index` wrote into a folder above an image, by the image's path.
// So programs that list or open files themselves, and never name the index, decode with its seek points.
//
// The folders above each directory of images are searched once. A row of an index is used if the file has the
// row's size and time; the decoder compares the CRC-32C of its bytes. Nothing here is an error: an index that
// cannot be read, or must not be trusted, counts as missing. The package knows
// nothing of caches, threads or pixels.
package beside
