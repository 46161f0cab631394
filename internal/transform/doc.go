// Package transform checks a list of transforms, given as JSON, and compiles it into a plan for native.
//
// transforms.json says which transforms there are, with their arguments, types, defaults and documentation. Parse
// checks a list against it, and generate.py writes python/headrace/transforms.py and the classes behind it from it.
// Names, defaults and meaning are those of torchvision 0.29 on PIL images.
//
// The package knows nothing of images or of how a transform is carried out; native does.
package transform
