package remote

import (
	"net/url"
	"slices"
	"strings"
)

// A signing is a way to sign addresses: what a query has where it was used, and what it put there. Names that end in "-"
// stand for all that begin so.
// Names are compared as they are: queries are case-sensitive, and each way writes its own spelling.
type signing struct{ has, puts []string }

// signings are those of stores and of what delivers their objects.
// A query that is signed in a way that is not here makes one object look like a new one each time: a cache then fetches
// it anew, and no error comes of it.
var signings = []signing{
	// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html, and RESTAuthentication.html before it
	{[]string{"X-Amz-Signature"}, []string{"X-Amz-"}},
	{[]string{"AWSAccessKeyId", "Signature"}, []string{"AWSAccessKeyId", "Expires", "Signature", "x-amz-security-token"}},
	// https://docs.cloud.google.com/storage/docs/authentication/signatures
	{[]string{"X-Goog-Signature"}, []string{"X-Goog-"}},
	{[]string{"GoogleAccessId", "Signature"}, []string{"GoogleAccessId", "Expires", "Signature"}},
	// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/private-content-signed-urls.html
	{[]string{"Key-Pair-Id", "Signature"}, []string{"Key-Pair-Id", "Expires", "Signature", "Policy"}},
	// https://learn.microsoft.com/rest/api/storageservices/create-service-sas, -account-sas and -user-delegation-sas
	{[]string{"sv", "sig"}, []string{"sv", "ss", "srt", "sp", "se", "st", "spr", "sr", "si", "sip", "sdd", "ses",
		"skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid"}},
	{[]string{"sig"}, []string{"sig"}},
}

// unsignedQuery is a query without what signs it. The rest stays as it is, for it may name the object.
// The order of what is left stays, too, for a server may see it.
func unsignedQuery(query string) string {
	list := strings.Split(query, "&")
	names := make([]string, len(list))
	for i, one := range list {
		name, _, _ := strings.Cut(one, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		names[i] = name
	}
	var put []string
	// All names of a way have to be there: "Signature" or "sig" alone may be a server's own.
	for _, s := range signings {
		if !slices.ContainsFunc(s.has, func(name string) bool { return !slices.Contains(names, name) }) {
			put = append(put, s.puts...)
		}
	}
	rest := make([]string, 0, len(list))
	for i, name := range names {
		if list[i] != "" && !slices.ContainsFunc(put, func(p string) bool { return name == p || strings.HasSuffix(p, "-") && strings.HasPrefix(name, p) }) {
			rest = append(rest, list[i])
		}
	}
	return strings.Join(rest, "&")
}
