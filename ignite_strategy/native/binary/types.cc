#include "native/binary/types.h"

#include <array>
#include <string>

#include "native/binary/values.h"

namespace ignite_strategy {
namespace {

// Deeper nesting than this is not data but an attack on the stack.
constexpr int kMaxDepth = 64;

// Java's byte is signed, so byte columns are int8: a stored -1 reads as -1. (The original client said uint8
// and showed it as 255; for pixels stored in bytes, tf.bitcast(x, tf.uint8) costs nothing.) Java's char is a
// UTF-16 unit: uint16. A UUID is its text of 36 characters. Dates and times are what the wire has:
// milliseconds since 1970-01-01T00:00 UTC; timestamps have nanoseconds.
constexpr TypeInfo kTypes[] = {
    {1, "byte", Layout::kFixed, 1, Support::kScalar, DType::kInt8, 0, "java.lang.Byte", WriteFixed<1>},
    {2, "short", Layout::kFixed, 2, Support::kScalar, DType::kInt16, 0, "java.lang.Short", WriteFixed<2>},
    {3, "int", Layout::kFixed, 4, Support::kScalar, DType::kInt32, 0, "java.lang.Integer", WriteFixed<4>},
    {4, "long", Layout::kFixed, 8, Support::kScalar, DType::kInt64, 0, "java.lang.Long", WriteFixed<8>},
    {5, "float", Layout::kFixed, 4, Support::kScalar, DType::kFloat32, 0, "java.lang.Float", WriteFixed<4>},
    {6, "double", Layout::kFixed, 8, Support::kScalar, DType::kFloat64, 0, "java.lang.Double", WriteFixed<8>},
    {7, "char", Layout::kFixed, 2, Support::kScalar, DType::kUint16, 0, "java.lang.Character", WriteFixed<2>},
    {8, "boolean", Layout::kFixed, 1, Support::kScalar, DType::kBool, 0, "java.lang.Boolean", WriteFixed<1>},
    {9, "string", Layout::kPacked, 1, Support::kScalar, DType::kString, 0, "java.lang.String", WriteString},
    {10, "UUID", Layout::kFixed, 16, Support::kScalar, DType::kString, 0, "java.util.UUID", WriteUuid},
    {11, "date", Layout::kFixed, 8, Support::kScalar, DType::kInt64, 0, "java.util.Date", WriteFixed<8>},
    {12, "byte array", Layout::kPacked, 1, Support::kArray, DType::kInt8, 1, "[B", WriteFixed<1>},
    {13, "short array", Layout::kPacked, 2, Support::kArray, DType::kInt16, 2, "[S", WriteFixed<2>},
    {14, "int array", Layout::kPacked, 4, Support::kArray, DType::kInt32, 3, "[I", WriteFixed<4>},
    {15, "long array", Layout::kPacked, 8, Support::kArray, DType::kInt64, 4, "[J", WriteFixed<8>},
    {16, "float array", Layout::kPacked, 4, Support::kArray, DType::kFloat32, 5, "[F", WriteFixed<4>},
    {17, "double array", Layout::kPacked, 8, Support::kArray, DType::kFloat64, 6, "[D", WriteFixed<8>},
    {18, "char array", Layout::kPacked, 2, Support::kArray, DType::kUint16, 7, "[C", WriteFixed<2>},
    {19, "boolean array", Layout::kPacked, 1, Support::kArray, DType::kBool, 8, "[Z", WriteFixed<1>},
    {20, "string array", Layout::kTypedItems, 0, Support::kArray, DType::kString, 9, "[Ljava.lang.String;",
     WriteString},
    {21, "UUID array", Layout::kTypedItems, 0, Support::kArray, DType::kString, 10, "[Ljava.util.UUID;",
     WriteUuid},
    {22, "date array", Layout::kTypedItems, 0, Support::kArray, DType::kInt64, 11, "[Ljava.util.Date;",
     WriteFixed<8>},
    {23, "object array", Layout::kObjectArray, 0, Support::kSequence, DType::kNone, 0, "", nullptr},
    {24, "collection", Layout::kCollection, 0, Support::kSequence, DType::kNone, 0, "", nullptr},
    {25, "map", Layout::kMap, 0, Support::kMap, DType::kNone, 0, "", nullptr},
    {27, "wrapped object", Layout::kWrapped, 0, Support::kObject, DType::kNone, 0, "", nullptr},
    {28, "enum", Layout::kEnum, 0, Support::kScalar, DType::kInt32, 0, "", nullptr},
    {29, "enum array", Layout::kEnumArray, 0, Support::kArray, DType::kInt32, 28, "", nullptr},
    {30, "decimal", Layout::kDecimal, 0, Support::kScalar, DType::kString, 0, "java.math.BigDecimal",
     WriteDecimal},
    {31, "decimal array", Layout::kTypedItems, 0, Support::kArray, DType::kString, 30,
     "[Ljava.math.BigDecimal;", WriteDecimal},
    {32, "class", Layout::kClass, 0, Support::kUnsupported, DType::kNone, 0, "", nullptr},
    {33, "timestamp", Layout::kFixed, 12, Support::kScalar, DType::kInt64, 0, "java.sql.Timestamp",
     WriteTimestamp},
    {34, "timestamp array", Layout::kTypedItems, 0, Support::kArray, DType::kInt64, 33,
     "[Ljava.sql.Timestamp;", WriteTimestamp},
    {35, "proxy", Layout::kOpaque, 0, Support::kUnsupported, DType::kNone, 0, "", nullptr},
    {36, "time", Layout::kFixed, 8, Support::kScalar, DType::kInt64, 0, "java.sql.Time", WriteFixed<8>},
    {37, "time array", Layout::kTypedItems, 0, Support::kArray, DType::kInt64, 36, "[Ljava.sql.Time;",
     WriteFixed<8>},
    {38, "enum", Layout::kEnum, 0, Support::kScalar, DType::kInt32, 0, "", nullptr},
    {99, "platform proxy", Layout::kOpaque, 0, Support::kUnsupported, DType::kNone, 0, "", nullptr},
    {101, "NULL", Layout::kFixed, 0, Support::kUnsupported, DType::kNone, 0, "", nullptr},
    {102, "reference to an earlier object", Layout::kFixed, 4, Support::kUnsupported, DType::kNone, 0, "",
     nullptr},
    {103, "object", Layout::kObject, 0, Support::kObject, DType::kNone, 0, "", nullptr},
    // The optimized marshaller's catch-all. java.sql.Date, that is SQL DATE, travels in it and is read; other
    // classes are not.
    {0xfe, "SQL date", Layout::kPacked, 1, Support::kScalar, DType::kInt64, 0, "java.sql.Date", WriteSqlDate},
};

std::array<const TypeInfo*, 256> Index() {
  std::array<const TypeInfo*, 256> index{};
  for (const TypeInfo& type : kTypes) index[type.code] = &type;
  return index;
}

void Skip(Reader& reader, int depth);

void SkipItems(Reader& reader, std::size_t count, int depth) {
  for (std::size_t i = 0; i < count; ++i) Skip(reader, depth);
}

void SkipBytes(Reader& reader, std::size_t item_size) {
  const std::size_t count = reader.Count(item_size);
  reader.Skip(count * item_size);
}

void SkipObject(Reader& reader) {
  reader.Skip(11);  // version, flags, type id, hash code
  const auto length = reader.Get<std::int32_t>();
  if (length < 24)
    throw Error(Code::kDataLoss, "an object's length of " + std::to_string(length) + " bytes is impossible");
  reader.Skip(static_cast<std::size_t>(length) - 16);
}

void Skip(Reader& reader, int depth) {
  if (depth > kMaxDepth) throw Error(Code::kDataLoss, "values are nested more than 64 deep");
  const auto type_code = reader.Get<std::uint8_t>();
  const TypeInfo* type = FindType(type_code);
  if (type == nullptr) throw Error(Code::kDataLoss, "unknown type code " + std::to_string(type_code));
  switch (type->layout) {
    case Layout::kFixed:
      return reader.Skip(type->item_size);
    case Layout::kPacked:
      return SkipBytes(reader, type->item_size);
    case Layout::kTypedItems:
      return SkipItems(reader, reader.Count(1), depth + 1);
    case Layout::kObjectArray:
    case Layout::kEnumArray:
      ReadTypeId(reader);
      return SkipItems(reader, reader.Count(1), depth + 1);
    case Layout::kCollection:
    case Layout::kMap: {
      const std::size_t per_item = type->layout == Layout::kMap ? 2 : 1;
      const std::size_t count = reader.Count(per_item);
      reader.Skip(1);
      return SkipItems(reader, count * per_item, depth + 1);
    }
    case Layout::kEnum:
      ReadTypeId(reader);
      return reader.Skip(4);
    case Layout::kDecimal:
      reader.Skip(4);
      return SkipBytes(reader, 1);
    case Layout::kClass:
      ReadTypeId(reader);
      return;
    case Layout::kWrapped:
      SkipBytes(reader, 1);
      return reader.Skip(4);
    case Layout::kObject:
      return SkipObject(reader);
    case Layout::kOpaque:
      throw Error(Code::kUnimplemented,
                  std::string("a ") + type->name + " has no known end and cannot be skipped");
  }
}

}  // namespace

std::size_t ItemSize(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kBool:
      return 1;
    case DType::kInt16:
    case DType::kUint16:
      return 2;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kNone:
    case DType::kString:
      break;
  }
  return 0;
}

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kInt16:
      return "int16";
    case DType::kInt8:
      return "int8";
    case DType::kString:
      return "string";
    case DType::kInt64:
      return "int64";
    case DType::kBool:
      return "bool";
    case DType::kUint16:
      return "uint16";
    case DType::kNone:
      break;
  }
  return "none";
}

const TypeInfo* FindType(std::uint8_t type_code) {
  static const std::array<const TypeInfo*, 256> index = Index();
  return index[type_code];
}

const char* TypeName(std::uint8_t type_code) {
  const TypeInfo* type = FindType(type_code);
  return type == nullptr ? "value of an unknown type" : type->name;
}

std::string WithArticle(std::uint8_t type_code) {
  const std::string name = TypeName(type_code);
  // "UUID" begins with a consonant when it is spoken.
  return (name.find_first_of("aeio") == 0 || name.compare(0, 2, "un") == 0 ? "an " : "a ") + name;
}

std::uint8_t CodeFor(DType dtype, bool array) {
  const Support want = array ? Support::kArray : Support::kScalar;
  for (const TypeInfo& type : kTypes) {
    if (type.support == want && type.dtype == dtype) return type.code;
  }
  return 0;
}

DType DTypeOf(std::uint8_t type_code, const Forms& forms) {
  const TypeInfo* type = FindType(type_code);
  if (type == nullptr) return DType::kNone;
  switch (Family(type->item != 0 ? type->item : type_code)) {
    case code::kDecimal:
      return forms.decimal_float64 ? DType::kFloat64 : DType::kString;
    case code::kEnum:
      return forms.enum_name ? DType::kString : DType::kInt32;
    default:
      return type->dtype;
  }
}

std::uint8_t Family(std::uint8_t type_code) {
  switch (type_code) {
    case code::kSqlDate:
      return code::kDate;
    case code::kBinaryEnum:
      return code::kEnum;
    case code::kObjectArray:
      return code::kCollection;
    case code::kWrapped:
      return code::kObject;
    default:
      return type_code;
  }
}

void SkipValue(Reader& reader) { Skip(reader, 0); }

std::int32_t ReadTypeId(Reader& reader) {
  const auto type_id = reader.Get<std::int32_t>();
  if (type_id != 0) return type_id;
  return JavaLowerHash(reader.TypedString().value_or(std::string()));
}

}  // namespace ignite_strategy
