package remote

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATextThatIsMeantAsAnAddressIsDistinguishedFromAPath(t *testing.T) {
	for text, said := range map[string]string{
		"s3a://bucket/a.tar":         "addresses of s3a:// are not read (expected s3://, or a path)",
		"GCS://bucket/a.tar":         "addresses of gcs:// are not read (expected gs://, or a path)",
		"ftp://me:secret@host/a.tar": "addresses of ftp:// are not read (expected s3://, gs://, az://, http://, https://, hf://, or a path)",
		"file:///data/a.tar":         "file: is no address of a store; give the path of the file",
		"FILE:///data/a.tar":         "file: is no address of a store; give the path of the file",
		"file:data/a.tar":            "file: is no address of a store; give the path of the file",
		"s3:/bucket/a.tar":           "the address has one slash behind s3: (expected two); pathlib.Path takes the other out, so give addresses as text",
		"pipe:aws s3 cp s3://b/a -":  "pipe: of WebDataset runs a command, and no command is run here; give the address that it reads, such as s3://bucket/train-{000..146}.tar",
		"s3://bucket/a.tar":          "",
		"/data/a.tar":                "",
		"c:/data/a.tar":              "",
		"a:b/c.tar":                  "",
		"data/s3://x":                "",
	} {
		require.Equal(t, said, Mistaken(text), text)
	}
}
