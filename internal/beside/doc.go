// Package beside finds the index that lies beside images: what `headrace index` wrote into the folder that a
// file's class lies in. Programs that open a folder's files by their paths, or list them, decode them by its
// seek points without having named it.
//
// A folder is looked for above each directory of images once, and what an index says of a file counts where the
// file's size and time are those of its row; whether its bytes are is for the decoder to say, by their CRC-32C.
// Nothing here is an error: an index that cannot be read, or is not to be trusted, is none. The package knows
// nothing of caches, threads or pixels.
package beside
