// Package beside finds the index of an image by the image's path: what `headrace index` wrote into the folder
// above that of its class. So programs that list or open files themselves, and never name the index, decode
// by its seek points.
//
// A folder is looked for above each directory of images once, and what an index says of a file counts where the
// file's size and time are those of its row; whether its bytes are is for the decoder to say, by their CRC-32C.
// Nothing here is an error: an index that cannot be read, or is not to be trusted, is none. The package knows
// nothing of caches, threads or pixels.
package beside
