package formats

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// exampleOf is a tf.train.Example of features of one number each, in this order.
func exampleOf(names ...string) []byte {
	field := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	var features []byte
	for i, name := range names {
		list := field(1, protowire.AppendVarint(nil, uint64(i)))
		features = append(features, field(1, append(field(1, []byte(name)), field(2, field(3, list))...))...)
	}
	return field(1, features)
}

func TestTheLastOfTwoFeaturesOfOneNameIsUsedHoweverManyThereAre(t *testing.T) {
	for _, count := range []int{2, fewFeatures, fewFeatures + 1, 3 * fewFeatures} {
		var names []string
		for i := range count {
			names = append(names, fmt.Sprint(i))
		}
		for _, twice := range []int{0, count / 2, count - 1} {
			data := exampleOf(append(names, names[twice])...)
			features, err := NewExampleReader(bytes.NewReader(data)).Read(TFRecord{Length: int64(len(data))})
			require.NoError(t, err)
			require.Len(t, features, count)
			for i, f := range features {
				want := int64(i)
				if i == twice {
					want = int64(count)
				}
				require.Equal(t, names[i], f.Name)
				require.Equal(t, want, f.Int)
			}
		}
	}
}
