// Package transform checks a list of transforms, given as JSON, and makes a plan for native of it.
//
// transforms.json says which transforms there are, their arguments, types, defaults and
// documentation. Parse checks a list of them against it; generate.py writes
// python/headrace/transforms.py and the classes behind it from it. Names, defaults and meaning are
// torchvision 0.29's on PIL images.
//
// The package knows nothing of images or of how a transform is carried out: that is native's.
package transform
