package pack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/catalog"
	"github.com/headrace/headrace/internal/fault"
)

func tableFolder(t *testing.T) string {
	root := t.TempDir()
	for i, name := range []string{"img/a.jpg", "img/b.jpg", "img/c.png"} {
		put(t, root, name, testJPEG(uint64(i)))
	}
	return root
}

// Hugging Face's ImageFolder has a list beside its images, whose column of paths is called file_name.
func TestAListFromHuggingFacesImageFolderIsPackedUnchanged(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	put(t, root, "metadata.csv", []byte("file_name,label,text\nimg/b.jpg,2,one\nimg/a.jpg,0,two\n"))
	put(t, root, "metadata.jsonl", []byte(`{"file_name": "img/b.jpg", "label": 2, "text": "one", "score": 1, "box": [1, 2.5], "ok": true}
`+"\r\n"+`{"text": "z\u00fc", "file_name": "img/a.jpg", "label": 0, "score": null, "box": null, "ok": false}`))
	for _, name := range []string{"metadata.csv", "metadata.jsonl"} {
		dst, _ := packed(t, PackConfig{Source: filepath.Join(root, name)})
		d := open(t, dst)
		require.Equal(t, int64(2), d.Len())
		for i, want := range []int64{2, 0} {
			s, err := d.Sample(int64(i))
			require.NoError(t, err)
			require.Equal(t, want, s.Label)
			key, err := d.Key(int64(i))
			require.NoError(t, err)
			require.Equal(t, []string{"img/b", "img/a"}[i], key)
		}
		if name == "metadata.csv" {
			continue
		}
		require.Equal(t, []catalog.Field{{Name: "text", Type: catalog.Str}, {Name: "score", Type: catalog.Float}, {Name: "box", Type: catalog.Str}, {Name: "ok", Type: catalog.Int}}, d.Fields())
		for field, want := range map[string][]any{"text": {"one", "zü"}, "box": {"[1,2.5]", ""}, "ok": {int64(1), int64(0)}} {
			for i := range want {
				value, err := d.FieldValue(int64(i), field)
				require.NoError(t, err)
				require.Equal(t, want[i], value, field)
			}
		}
		score, err := d.FieldValue(1, "score")
		require.NoError(t, err)
		require.NotEqual(t, score, score)
	}
	_, err := Pack(context.Background(), PackConfig{Source: root + "/img", Destination: filepath.Join(t.TempDir(), "x")}, NewTracker())
	require.ErrorContains(t, err, "couldn't find any class folder")
	require.ErrorContains(t, err, "headrace.pack takes a list of files, too: CSV, JSON lines or Parquet")
	put(t, root, "img/metadata.jsonl", []byte("{}"))
	_, err = Pack(context.Background(), PackConfig{Source: root + "/img", Destination: filepath.Join(t.TempDir(), "x")}, NewTracker())
	require.ErrorContains(t, err, "metadata.jsonl is a list of images, as Hugging Face's ImageFolder has it")
}

func manyMembers() string {
	var b strings.Builder
	for i := range 1025 {
		fmt.Fprintf(&b, `%c"m%d": 1`, ",{"[max(0, 1-i)], i)
	}
	return b.String() + "}"
}

func TestAMistakeInJSONLinesIsReportedWithItsLine(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	good := `{"path": "img/a.jpg", "label": 1}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"no object":         {good + "[1]\n", "record 1 at byte 34: bad: line 2: \"[1]\" is no JSON object"},
		"cut":               {good + "\n" + `{"path": "img/b.j`, "record 1 at byte 35: bad: line 3: "},
		"two objects":       {good + `{"path": "img/b.jpg", "label": 1} {}`, "line 2: something stands behind the object"},
		"no UTF-8":          {good + "{\"path\": \"\xff\"}", "line 2: it is no UTF-8"},
		"empty":             {"\n\n", "the list of files is empty"},
		"fraction":          {good + `{"path": "img/b.jpg", "label": 0.5}`, `the column "label" is of type float`},
		"too wide":          {good + `{"path": "img/b.jpg", "label": 9223372036854775808}`, `the column "label" has whole numbers beyond`},
		"negative":          {good + `{"path": "img/b.jpg", "label": -2}`, "record 1 at byte 34: bad: the label is -2 (expected 0 or more, or -1 for none), in line 2"},
		"ends of two bytes": {strings.ReplaceAll(good, "\n", "\r\n") + "\r\n" + `{"path": "img/b.jpg", "label": -2}`, "record 1 at byte 37: bad: the label is -2 (expected 0 or more, or -1 for none), in line 3"},
		"behind a mark":     {"\xef\xbb\xbf" + good + "[1]\n", "record 1 at byte 37: bad: line 2: \"[1]\" is no JSON object"},
		"a mark in line 2":  {good + "\xef\xbb\xbf" + good, "record 1 at byte 34: bad: line 2: "},
		"no such image":     {good + `{"path": "img/z.jpg", "label": 2}`, "img/z.jpg"},
		"no path":           {`{"label": 2}`, `there is no column "path" (found "label")`},
		"long line":         {good + `{"path": "` + strings.Repeat("x", maxJSONLine) + `"}`, "record 1 at byte 34: unsupported: line 2 has more than 16777216 bytes"},
		"many members":      {manyMembers(), "line 1: more than 1024 members"},
	} {
		put(t, root, "list.jsonl", []byte(c.text))
		_, err := Pack(context.Background(), PackConfig{Source: filepath.Join(root, "list.jsonl"), Destination: filepath.Join(t.TempDir(), "x")}, NewTracker())
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestAByteOrderMarkBeforeJSONLinesIsSkipped(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	put(t, root, "list.jsonl", []byte("\xef\xbb\xbf{\"path\": \"img/b.jpg\", \"label\": 2}\n"))
	dst, _ := packed(t, PackConfig{Source: filepath.Join(root, "list.jsonl")})
	s, err := open(t, dst).Sample(0)
	require.NoError(t, err)
	require.EqualValues(t, 2, s.Label)
}

func TestOfTwoMembersOfOneNameInAJSONLineOnlyTheLastCounts(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	put(t, root, "list.ndjson", []byte(`{"gap": 1, "null": 1, "path": "img/z.jpg", "gap": 2, "text": "one", "path": "img/a.jpg", "null": null, "text": 7}
{"path": "img/b.jpg", "null": 3, "text": 8}
`))
	dst, _ := packed(t, PackConfig{Source: filepath.Join(root, "list.ndjson")})
	d := open(t, dst)
	require.Equal(t, []catalog.Field{{Name: "gap", Type: catalog.Float}, {Name: "null", Type: catalog.Float}, {Name: "text", Type: catalog.Int}}, d.Fields())
	for field, want := range map[string][]string{"gap": {"2", "NaN"}, "null": {"NaN", "3"}, "text": {"7", "8"}} {
		for i := range want {
			value, err := d.FieldValue(int64(i), field)
			require.NoError(t, err)
			require.Equal(t, want[i], fmt.Sprint(value), field)
		}
	}
}

func TestACSVListOfFilesGivesLabelsByNameAndTypedFields(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	put(t, root, "list.csv", []byte("\xef\xbb\xbfpath,label,age,score,note\nimg/b.jpg,zebra,1,0.5,\"x, y\"\n./img/a.jpg,ant,-2,,007\n"+
		filepath.Join(root, "img/c.png")+",zebra,3,1e3,\n"))
	dst, s := packed(t, PackConfig{Source: filepath.Join(root, "list.csv")})
	require.Equal(t, 2, s.Classes)
	d := open(t, dst)
	require.Equal(t, []string{"ant", "zebra"}, d.Classes())
	require.Equal(t, []catalog.Field{{Name: "age", Type: catalog.Int}, {Name: "score", Type: catalog.Float}, {Name: "note", Type: catalog.Str}}, d.Fields())
	for i, want := range []struct {
		key   string
		label int64
		age   int64
		note  string
	}{{"img/b", 1, 1, "x, y"}, {"img/a", 0, -2, "007"}, {"img/c", 1, 3, ""}} {
		s, err := d.Sample(int64(i))
		require.NoError(t, err)
		key, _ := d.Key(int64(i))
		age, _ := d.FieldValue(int64(i), "age")
		note, _ := d.FieldValue(int64(i), "note")
		require.Equal(t, want, struct {
			key   string
			label int64
			age   int64
			note  string
		}{key, s.Label, age.(int64), note.(string)})
	}
	score, err := d.FieldValue(1, "score")
	require.NoError(t, err)
	require.NotEqual(t, score, score) // an empty number is NaN
	require.True(t, verify(t, VerifyConfig{Source: dst}).OK)
}

func TestErrorsInACSVListOfFilesNameFileRowAndReason(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	for text, want := range map[string]struct {
		kind fault.Kind
		text string
	}{
		"":                                     {fault.KindEmpty, "empty"},
		"path,label\n":                         {fault.KindEmpty, "no rows"},
		"file,label\nimg/a.jpg,1\n":            {fault.KindBadFile, `no column "path"`},
		"path,label\nimg/a.jpg,1.5\n":          {fault.KindBadFile, "whole numbers or names"},
		"path,label\nimg/a.jpg\n":              {fault.KindBadFile, "at byte 11: bad: line 2: wrong number of fields"},
		"path,label\nimg/a.jpg,1\nimg/a.png,2": {fault.KindDuplicateKey, "record 1 (img/a) at byte 23: bad: two samples of one key, row 0 has it already, in line 3"},
		"path,label\n,1\n":                     {fault.KindBadFile, "record 0 at byte 11: bad: the path \"\" has not"},
		"path;label\nimg/a.jpg;1\n":            {fault.KindBadFile, `columns are separated by commas, here it seems by ";"`},
		"path;label\nimg/a.jpg;1,5\n":          {fault.KindBadFile, `here it seems by ";"`},
		"path\tlabel\nimg/a.jpg\t1\n":          {fault.KindBadFile, `here it seems by "\t"`},
		"\xef\xbb\xbfpath,label\nimg/a.jpg,1\n\"img/\nb.jpg\",2\n,3\n": {fault.KindBadFile, "record 2 at byte 41: bad: the path \"\" has not 1 to 4096 bytes without NUL, in line 5"},
		"path,x,x\nimg/a.jpg,1,2\n":                                    {fault.KindBadFile, "twice"},
		"path,label\nimg/a.jpg,1\nimg/b.jpg,-2\n":                      {fault.KindBadFile, "record 1 at byte 23: bad: the label is -2 (expected 0 or more, or -1 for none), in line 3"},
		"path,label\nimg/a.jpg,9223372036854775808\n":                  {fault.KindBadFile, `the column "label" has whole numbers beyond 9223372036854775807`},
		"path,label\nimg/a.jpg,r\xe9\n":                                {fault.KindBadFile, `record 0 at byte 11: bad: the label "r\xe9" has not 1 to 4096 bytes of UTF-8, in line 2`},
		"path,key\nimg/a.jpg,r\xe9\n":                                  {fault.KindBadFile, `record 0 at byte 9: bad: the key "r\xe9" has not 1 to 4096 bytes of UTF-8`},
		"path,note\nimg/a.jpg,x\nimg/b.jpg,r\xe9\n":                    {fault.KindBadFile, `record 1 at byte 22: bad: field "note": the text is not UTF-8, in line 3`},
	} {
		put(t, root, "list.csv", []byte(text))
		_, err := Pack(context.Background(), PackConfig{Source: filepath.Join(root, "list.csv"), Destination: filepath.Join(t.TempDir(), "x")}, nil)
		require.Equal(t, want.kind, kindOf(err), "%q: %v", text, err)
		require.ErrorContains(t, err, want.text)
	}
}

func TestAClassThatIsNewInTheSecondPassOverAListOfFilesIsAnError(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	rows := "path,label,key\n"
	for i := range 20000 { // more than a reader buffers
		rows += fmt.Sprintf("img/a.jpg,ant,%d\n", i)
	}
	path := filepath.Join(root, "list.csv")
	put(t, root, "list.csv", []byte(rows+"img/b.jpg,bee,b\n"))
	table, err := openTable(&PackConfig{Source: path})
	require.NoError(t, err)
	defer table.close()
	require.NoError(t, os.WriteFile(path, []byte(rows+"img/b.jpg,fly,b\n"), 0o644))
	var it item
	for range 20000 {
		_, err := table.next(&it)
		require.NoError(t, err)
	}
	_, err = table.next(&it)
	require.ErrorContains(t, err, `the label is "fly", which was not there when the list of files was first read`)
}

func TestIntegersBeyond64BitsStayTextUnlessTheirColumnHasFractions(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	put(t, root, "list.csv", []byte("path,id,hash,area\nimg/a.jpg,9223372036854775807,18446744073709551615,18446744073709551615\nimg/b.jpg,1,7,0.5\n"))
	dst, _ := packed(t, PackConfig{Source: filepath.Join(root, "list.csv")})
	d := open(t, dst)
	for name, want := range map[string]any{"id": int64(9223372036854775807), "hash": "18446744073709551615", "area": 18446744073709551615.0} {
		found, err := d.FieldValue(0, name)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
}

func TestAManifestThatIsAFIFOIsRefusedAndNotWaitedFor(t *testing.T) {
	checkNoLeaks(t)
	for _, name := range []string{"list.csv", "list.jsonl", "list.parquet"} {
		list := filepath.Join(t.TempDir(), name)
		require.NoError(t, unix.Mkfifo(list, 0o600))
		_, err := Pack(context.Background(), PackConfig{Source: list, Destination: filepath.Join(t.TempDir(), "x")}, nil)
		require.EqualError(t, err, list+": cannot open the list of files: not a regular file")
	}
}

func TestTheErrorOfAMissingFileNamesItsRowInTheListOfFiles(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	type parquetRow struct {
		Path string `parquet:"path"`
	}
	put(t, root, "list.csv", []byte("path,note\nimg/a.jpg,\"two\nlines\"\nimg/nowhere.jpg,\n"))
	require.NoError(t, parquet.WriteFile(filepath.Join(root, "list.parquet"), []parquetRow{{"img/a.jpg"}, {"img/nowhere.jpg"}}))
	for name, place := range map[string]string{"list.csv": "row 1, line 4 of ", "list.parquet": "row 1 of "} {
		list, dst := filepath.Join(root, name), filepath.Join(t.TempDir(), "x")
		_, err := Pack(context.Background(), PackConfig{Source: list, Destination: dst}, nil)
		var e *catalog.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, fault.KindIO, e.Kind)
		require.Equal(t, filepath.Join(root, "img/nowhere.jpg"), e.File)
		require.EqualError(t, err, e.File+": record 1 (img/nowhere): cannot open it, named by "+place+list+": no such file or directory")
		requireNothing(t, filepath.Dir(dst))
	}
}

func TestAListOfFilesWithoutLabelsGivesUnlabelledSamples(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	put(t, root, "list.csv", []byte("path,score\nimg/a.jpg,1\nimg/b.jpg,2\n"))
	dst, s := packed(t, PackConfig{Source: filepath.Join(root, "list.csv")})
	require.Zero(t, s.Classes)
	d := open(t, dst)
	for i := range int64(2) {
		s, err := d.Sample(i)
		require.NoError(t, err)
		require.EqualValues(t, catalog.NoLabel, s.Label)
	}
	require.True(t, verify(t, VerifyConfig{Source: dst}).OK)
	// A single row may lack a label, too. It then has no label member in the shard.
	put(t, root, "list.csv", []byte("path,label\nimg/a.jpg,3\nimg/b.jpg,-1\n"))
	some, _ := packed(t, PackConfig{Source: filepath.Join(root, "list.csv")})
	second, err := open(t, some).Sample(1)
	require.NoError(t, err)
	require.EqualValues(t, catalog.NoLabel, second.Label)
	shard, err := os.ReadFile(filepath.Join(some, catalog.ShardName(0)))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(shard), ".cls\x00"))
	require.True(t, verify(t, VerifyConfig{Source: some}).OK)
	// A missing column that was asked for by name is an error, and does not mean unlabelled data.
	put(t, root, "list.csv", []byte("path,score\nimg/a.jpg,1\n"))
	_, err = Pack(context.Background(), PackConfig{Source: filepath.Join(root, "list.csv"), LabelColumn: "class",
		Destination: filepath.Join(t.TempDir(), "x")}, nil)
	require.ErrorContains(t, err, `no column "class"`)
}

func TestPathsWithParentFoldersGetDistinctKeysWithoutThem(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	put(t, root, "lists/img/a.jpg", testJPEG(7))
	put(t, root, "lists/list.csv", []byte("path\n../img/a.jpg\nimg/a.jpg\n./sub/../../img/b.jpg\n"+filepath.Join(root, "lists")+"/../img/c.png\n"))
	dst, s := packed(t, PackConfig{Source: filepath.Join(root, "lists/list.csv")})
	require.EqualValues(t, 4, s.Rows)
	d := open(t, dst)
	for i, want := range []string{"@up/img/a", "img/a", "@up/img/b", strings.TrimPrefix(root, "/") + "/img/c"} {
		key, err := d.Key(int64(i))
		require.NoError(t, err)
		require.Equal(t, want, key)
	}
	require.True(t, verify(t, VerifyConfig{Source: dst}).OK)
}

func TestAParquetListOfFilesGivesTheTypesOfItsColumns(t *testing.T) {
	checkNoLeaks(t)
	root := tableFolder(t)
	type row struct {
		File  string    `parquet:"file"`
		Class int32     `parquet:"class"`
		Big   int64     `parquet:"big"`
		Score *float64  `parquet:"score,optional"`
		Note  *string   `parquet:"note,optional"`
		Raw   []byte    `parquet:"raw"`
		Box   []float32 `parquet:"box,list"`
	}
	x, note := 0.25, "hü"
	require.NoError(t, parquet.WriteFile(filepath.Join(root, "list.parquet"), []row{
		{"img/a.jpg", 5, 1 << 40, &x, &note, []byte{1, 2}, []float32{1, 2, 3, 4}}, {"img/b.jpg", 0, -1, nil, nil, nil, nil},
	}))
	dst, _ := packed(t, PackConfig{Source: filepath.Join(root, "list.parquet"), PathColumn: "file", LabelColumn: "class"})
	d := open(t, dst)
	s, err := d.Sample(0)
	require.NoError(t, err)
	require.EqualValues(t, 5, s.Label)
	value := func(i int64, name string) any { v, err := d.FieldValue(i, name); require.NoError(t, err); return v }
	require.Equal(t, int64(1<<40), value(0, "big"))
	require.Equal(t, 0.25, value(0, "score"))
	require.Equal(t, "hü", value(0, "note"))
	require.Equal(t, []byte{1, 2}, value(0, "raw"))
	require.Equal(t, []int64{4}, value(0, "box").(catalog.Array).Shape)
	require.Equal(t, []int64{0}, value(1, "box").(catalog.Array).Shape)
	require.NotEqual(t, value(1, "score"), value(1, "score"))
	require.Equal(t, "", value(1, "note"))
	require.True(t, verify(t, VerifyConfig{Source: dst}).OK)

	whole, err := os.ReadFile(filepath.Join(root, "list.parquet"))
	require.NoError(t, err)
	for cut := 0; cut < len(whole); cut += 7 {
		put(t, root, "cut.parquet", whole[:cut])
		_, err := Pack(context.Background(), PackConfig{Source: filepath.Join(root, "cut.parquet"), Destination: filepath.Join(t.TempDir(), "x")}, nil)
		require.Error(t, err)
	}
}

func TestAParquetListThatCannotBeReadIsAnIOError(t *testing.T) {
	type row struct {
		Path string `parquet:"path"`
	}
	file := filepath.Join(t.TempDir(), "list.parquet")
	require.NoError(t, parquet.WriteFile(file, []row{{"a.jpg"}}))
	opened, err := openParquet(file)
	require.NoError(t, err)
	opened.(*parquetFile).f.Close()
	_, err = opened.next(make([]any, 1))
	require.ErrorContains(t, err, file+": cannot read the list of files")
	require.Equal(t, fault.KindIO, fault.KindOf(err))
}
