package formats

import (
	"fmt"
	"slices"
	"strings"
)

// PairRule says which files of two folders are a pair.
type PairRule struct {
	// Suffixes end the stems of the first and of the second files, after the text that they have in common:
	// "0001x4.png" has the stem "0001x4". With a suffix, files without it are ignored.
	Suffixes [2]string
	// Skip leaves out files without a partner; otherwise they are an error.
	Skip bool
}

// ListPairs lists the images below two folders whose paths are equal except for suffixes and extensions. It returns
// their names below each folder, in the order of the first ones. What an image is, where links lead and how names sort
// is as in ListImageFolder, but folders are no classes.
func ListPairs(first, second string, rule PairRule) (firsts, seconds Names, err error) {
	var listed [2][]string
	var byStem [2]map[string]int
	for i, root := range []string{first, second} {
		if listed[i], err = listImages(root, rule.Suffixes[i]); err != nil {
			return firsts, seconds, err
		}
		if byStem[i], err = stems(root, listed[i], rule.Suffixes[i]); err != nil {
			return firsts, seconds, err
		}
	}
	// Both directions are checked, so that a forgotten file of either folder is reported.
	if !rule.Skip {
		for i, root := range []string{first, second} {
			other := []string{second, first}[i]
			if err := allIn(byStem[1-i], root, other, listed[i], rule.Suffixes[i]); err != nil {
				return firsts, seconds, err
			}
		}
	}
	for _, name := range listed[0] {
		if at, ok := byStem[1][stem(name, rule.Suffixes[0])]; ok {
			firsts.Append(name)
			seconds.Append(listed[1][at])
		}
	}
	if firsts.Len() == 0 {
		return firsts, seconds, fmt.Errorf("%w: no image of %s has a partner in %s (files of the same name, extensions aside)", ErrEmpty, first, second)
	}
	return firsts, seconds, nil
}

// listImages returns the images in a folder whose stems end with a suffix, as names below it.
func listImages(root, suffix string) ([]string, error) {
	var dirs []directory
	if err := descend(root, "", nil, nil, &dirs); err != nil {
		return nil, err
	}
	slices.SortFunc(dirs, func(a, b directory) int { return compareNames(a.path, b.path) })
	var names []string
	for _, d := range dirs {
		below := d.path
		if below != "" {
			below += "/"
		}
		for _, file := range d.files {
			if strings.HasSuffix(Key(file), suffix) {
				names = append(names, below+file)
			}
		}
	}
	if len(names) == 0 {
		wanted := ""
		if suffix != "" {
			wanted = fmt.Sprintf(" whose name ends with %q", suffix)
		}
		return nil, fmt.Errorf("%w: found no image in %s%s. Supported extensions are: %s", ErrEmpty, root, wanted, strings.Join(ImageExtensions, ", "))
	}
	return names, nil
}

// stem returns the part that both names of a pair share.
func stem(name, suffix string) string { return strings.TrimSuffix(Key(name), suffix) }

func stems(root string, names []string, suffix string) (map[string]int, error) {
	found := make(map[string]int, len(names))
	for i, name := range names {
		s := stem(name, suffix)
		if before, twice := found[s]; twice {
			return nil, fmt.Errorf("%w: in %s, %s and %s differ in their extension alone (expected one of them)", ErrBad, root, names[before], name)
		}
		found[s] = i
	}
	return found, nil
}

// allIn makes an error with the files that have no partner.
func allIn(partners map[string]int, root, other string, names []string, suffix string) error {
	var missing []string
	for _, name := range names {
		if _, ok := partners[stem(name, suffix)]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d images of %s have no partner in %s: %s", ErrBad, len(missing), len(names), root, other, abridge(missing))
}
