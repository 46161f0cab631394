package flat

// The parts of Arrow's metadata that are read (format/Message.fbs, format/Schema.fbs, format/File.fbs): the numbers of
// fields in their tables, and of types and headers in their unions.
const (
	MessageVersion, MessageHeaderType                      = 0, 1
	MessageHeader, MessageBodyLength                       = 2, 3
	HeaderSchema, HeaderDictionaryBatch, HeaderRecordBatch = 1, 2, 3
	SchemaEndianness, SchemaFields, SchemaMetadata         = 0, 1, 2
	FieldName, FieldTypeType, FieldType                    = 0, 2, 3
	FieldDictionary, FieldChildren                         = 4, 5
	BatchLength, BatchNodes, BatchBuffers                  = 0, 1, 2
	BatchCompression, BatchVariadicCounts                  = 3, 4
	FooterSchema, FooterDictionaries, FooterBatches        = 1, 2, 3
	DictionaryID, DictionaryData, DictionaryIsDelta        = 0, 1, 2
	DictionaryEncodingID, DictionaryIndex                  = 0, 1
	KeyValueKey, KeyValueValue                             = 0, 1
)

// The types of fields. The first field of their tables is the width or the precision of a number, and the second one is
// whether it is signed.
const (
	TypeNull, TypeInt, TypeFloat, TypeBinary, TypeUtf8       = 1, 2, 3, 4, 5
	TypeBool, TypeDecimal, TypeDate, TypeTime, TypeTimestamp = 6, 7, 8, 9, 10
	TypeInterval, TypeList, TypeStruct, TypeUnion            = 11, 12, 13, 14
	TypeFixedSizeBinary, TypeFixedSizeList, TypeMap          = 15, 16, 17
	TypeDuration, TypeLargeBinary, TypeLargeUtf8             = 18, 19, 20
	TypeLargeList, TypeRunEndEncoded, TypeBinaryView         = 21, 22, 23
	TypeUtf8View, TypeListView, TypeLargeListView            = 24, 25, 26
)
