package remote

import (
	"net/url"
	"slices"
	"strings"
)

// A signing is a way to sign addresses: the parameters by which a query shows it, and all parameters that it adds. A
// name that ends in "-" stands for all names that begin with it.
// Names are compared exactly, because queries are case-sensitive and each way has its own spelling.
type signing struct{ has, puts []string }

// signings are the ways of stores and of the networks that deliver their objects.
// If a way is missing here, an object looks new under each signature. A cache then fetches it again, but there is no
// error.
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

// unsignedQuery removes a signature's parameters from a query. The rest is unchanged, because it may name the object.
// The order of the rest stays too, because a server may depend on it.
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
	// All names of a way have to be there, because "Signature" or "sig" alone may be a server's own parameter.
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
