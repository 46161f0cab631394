package remote

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// otherSchemes has other programs' schemes for the stores that are read here.
var otherSchemes = map[string]string{
	"s3a": "s3", "s3n": "s3", "gcs": "gs",
	"azure": "az", "abfs": "az", "abfss": "az", "wasb": "az", "wasbs": "az", "adl": "az",
}

// addressed matches how an address begins (RFC 3986, 3.1), also with only one slash.
var addressed = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*):/`)

// Mistaken says what is wrong with a text that looks like an address but cannot be read as one; "" if nothing is wrong.
// It repeats only the scheme, because the rest may hold a secret. The caller must check first that no file has that
// name.
func Mistaken(text string) string {
	if strings.HasPrefix(text, "pipe:") {
		return "pipe: of WebDataset runs a command, and no command is run here; give the address that it reads, such as s3://bucket/train-{000..146}.tar"
	}
	if scheme, _, found := strings.Cut(text, ":"); found && strings.EqualFold(scheme, "file") {
		return "file: is no address of a store; give the path of the file"
	}
	found := addressed.FindStringSubmatch(text)
	if found == nil || IsURL(text) {
		return ""
	}
	scheme := strings.ToLower(found[1])
	switch {
	case slices.Contains(schemes, scheme):
		return fmt.Sprintf("the address has one slash behind %s: (expected two); pathlib.Path takes the other out, so give addresses as text", scheme)
	case !strings.HasPrefix(text[len(found[0]):], "/"):
		return ""
	}
	instead := cmp.Or(otherSchemes[scheme], strings.Join(schemes, "://, "))
	return fmt.Sprintf("addresses of %.20s:// are not read (expected %s://, or a path)", scheme, instead)
}
