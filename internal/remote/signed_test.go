package remote

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddressesThatDifferOnlyInTheirSignatureHaveTheSameKey(t *testing.T) {
	key := func(rest string) string {
		o, err := OpenKnown("https://"+rest, 1, "", Storage{})
		require.NoError(t, err)
		return o.Key()
	}
	for _, query := range []string{
		"", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=ID%2F2026&X-Amz-Date=20260909T092002Z&X-Amz-Expires=60&X-Amz-Security-Token=T&X-Amz-SignedHeaders=host&X-Amz-Signature=S",
		"AWSAccessKeyId=ID&Expires=1&x-amz-security-token=T&Signature=S", "X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Credential=a&X-Goog-Signature=S",
		"GoogleAccessId=a&Expires=2&Signature=S", "Expires=3&Signature=S&Key-Pair-Id=K", "Policy=P&Signature=S&Key-Pair-Id=K",
		"sv=2026-01-01&ss=b&srt=o&sp=r&se=2027&st=2026&spr=https&sr=d&sdd=1&si=p&sip=1&skoid=a&sktid=b&skt=c&ske=d&sks=b&skv=1&sig=S",
		"sig=A", "sig=B", "s%69g=B",
	} {
		assert.Equal(t, key("h/x"), key("user:password@h/x?"+query), query)
		assert.Equal(t, key("h/x?versionId=7"), key("h/x?"+query+"&versionId=7"), query)
	}
	other := map[string]bool{key("h/x"): true}
	for _, query := range []string{"id=1", "id=2", "Expires=1", "Signature=S", "Policy=P", "sv=1&sp=r", "X-Amz-Date=1", "X-Goog-Date=1", "sigh=1", "Key-Pair-Id=K", "Sig=1"} {
		assert.NotContains(t, other, key("h/x?"+query), query)
		other[key("h/x?"+query)] = true
	}
	assert.NotContains(t, key("h/x?id=SECRET"), "SECRET")
}
