package remote

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The hub converts datasets to Parquet and keeps the files in a branch of its own, as CONFIG/SPLIT/0000.parquet. Many
// datasets have nothing else that a program can read: their own files are a loading script, or single images.
// (https://huggingface.co/docs/dataset-viewer/parquet)
const (
	convertedRevision = "refs/convert/parquet"
	convertedShort    = "~parquet" // the hub's short name of that branch
)

// These are the hub's X-Error-Code for a branch, tag or commit that a dataset does not have, and for a dataset whose
// terms the account has not accepted (huggingface_hub/utils/_http.py, hf_raise_for_status).
const (
	codeNoRevision code = "RevisionNotFound"
	codeGated      code = "GatedRepo"
)

// noCommit adds to the error of a revision that was not found what to ask for instead.
func noCommit(f hubFile, err error) error {
	refused, ok := err.(*failure)
	if !ok || refused.status != http.StatusNotFound {
		return err
	}
	says := "there is no such dataset or revision"
	switch {
	case refused.code == codeNoRevision && f.revision == convertedRevision:
		says = fmt.Sprintf("the hub has not converted this dataset to Parquet, so it has no revision %s; its own files are below hf://datasets/%s/", f.revision, f.repo)
	case refused.code == codeNoRevision:
		says = fmt.Sprintf("the dataset has no revision %.100q (expected a branch, a tag, a commit, or %s for what the hub converted to Parquet)", f.revision, convertedRevision)
	}
	refused.inner, refused.text = ErrNoBucket, says+": "+refused.text
	return err
}

// noFile adds to the error of a file or folder that was not found which revision it was looked for in. The web page of
// a dataset shows the files of the converted branch under names that its own branch does not have.
func noFile(f hubFile, err error) error {
	if refused, ok := err.(*failure); ok && refused.status == http.StatusNotFound && !strings.HasPrefix(f.revision, "refs/convert/") {
		refused.text += fmt.Sprintf(" (in the revision %.100q; what the hub converted to Parquet is in @%s)", f.revision, convertedRevision)
	}
	return err
}

// Converted returns the addresses of the folders in which the hub keeps a dataset that it converted to Parquet, sorted;
// none if the address is not of the hub's, or of a revision that was converted, or if nothing was. It asks the hub, and
// is for the error that a dataset's own files are no containers.
func Converted(ctx context.Context, url string, storage Storage) []string {
	a, err := parse(url)
	if err != nil || a.scheme != "hf" {
		return nil
	}
	f, err := hubFileOf(a)
	if err != nil || strings.HasPrefix(f.revision, "refs/convert/") {
		return nil
	}
	below := "hf://datasets/" + f.repo + "@" + convertedRevision + "/"
	entries, err := List(ctx, below, storage)
	if err != nil {
		return nil
	}
	var folders []string
	for _, e := range entries {
		// The hub's answer is not trusted: a name that leads out of the branch would be the address of another dataset.
		folder, name := path.Split(strings.TrimPrefix(e.URL, below))
		if path.Ext(name) == ".parquet" && (folder == "" || filepath.IsLocal(folder)) {
			folders = append(folders, below+folder)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}
