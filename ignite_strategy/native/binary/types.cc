#include "native/binary/types.h"

#include <array>
#include <string>

namespace ignite_strategy {
namespace {

// Deeper nesting than this is not data but an attack on the stack.
constexpr int kMaxDepth = 64;

// Java's byte is signed, so byte columns are int8: a stored -1 reads as -1. (The original client said uint8
// and showed it as 255; for pixels stored in bytes, tf.bitcast(x, tf.uint8) costs nothing.) Java's char is a
// UTF-16 unit: uint16.
constexpr TypeInfo kTypes[] = {
    {1, "byte", Layout::kFixed, 1, Support::kScalar, DType::kInt8, "java.lang.Byte"},
    {2, "short", Layout::kFixed, 2, Support::kScalar, DType::kInt16, "java.lang.Short"},
    {3, "int", Layout::kFixed, 4, Support::kScalar, DType::kInt32, "java.lang.Integer"},
    {4, "long", Layout::kFixed, 8, Support::kScalar, DType::kInt64, "java.lang.Long"},
    {5, "float", Layout::kFixed, 4, Support::kScalar, DType::kFloat32, "java.lang.Float"},
    {6, "double", Layout::kFixed, 8, Support::kScalar, DType::kFloat64, "java.lang.Double"},
    {7, "char", Layout::kFixed, 2, Support::kScalar, DType::kUint16, "java.lang.Character"},
    {8, "boolean", Layout::kFixed, 1, Support::kScalar, DType::kBool, "java.lang.Boolean"},
    {9, "string", Layout::kPacked, 1, Support::kScalar, DType::kString, "java.lang.String"},
    {10, "UUID", Layout::kFixed, 16, Support::kUnsupported, DType::kNone, "java.util.UUID"},
    {11, "date", Layout::kFixed, 8, Support::kUnsupported, DType::kNone, "java.util.Date"},
    {12, "byte array", Layout::kPacked, 1, Support::kArray, DType::kInt8, "[B"},
    {13, "short array", Layout::kPacked, 2, Support::kArray, DType::kInt16, "[S"},
    {14, "int array", Layout::kPacked, 4, Support::kArray, DType::kInt32, "[I"},
    {15, "long array", Layout::kPacked, 8, Support::kArray, DType::kInt64, "[J"},
    {16, "float array", Layout::kPacked, 4, Support::kArray, DType::kFloat32, "[F"},
    {17, "double array", Layout::kPacked, 8, Support::kArray, DType::kFloat64, "[D"},
    {18, "char array", Layout::kPacked, 2, Support::kArray, DType::kUint16, "[C"},
    {19, "boolean array", Layout::kPacked, 1, Support::kArray, DType::kBool, "[Z"},
    {20, "string array", Layout::kTypedItems, 0, Support::kUnsupported, DType::kNone, ""},
    {21, "UUID array", Layout::kTypedItems, 0, Support::kUnsupported, DType::kNone, ""},
    {22, "date array", Layout::kTypedItems, 0, Support::kUnsupported, DType::kNone, ""},
    {23, "object array", Layout::kObjectArray, 0, Support::kUnsupported, DType::kNone, ""},
    {24, "collection", Layout::kCollection, 0, Support::kUnsupported, DType::kNone, ""},
    {25, "map", Layout::kMap, 0, Support::kUnsupported, DType::kNone, ""},
    {27, "wrapped object", Layout::kWrapped, 0, Support::kObject, DType::kNone, ""},
    {28, "enum", Layout::kEnum, 0, Support::kUnsupported, DType::kNone, ""},
    {29, "enum array", Layout::kEnumArray, 0, Support::kUnsupported, DType::kNone, ""},
    {30, "decimal", Layout::kDecimal, 0, Support::kUnsupported, DType::kNone, "java.math.BigDecimal"},
    {31, "decimal array", Layout::kTypedItems, 0, Support::kUnsupported, DType::kNone, ""},
    {32, "class", Layout::kClass, 0, Support::kUnsupported, DType::kNone, ""},
    {33, "timestamp", Layout::kFixed, 12, Support::kUnsupported, DType::kNone, "java.sql.Timestamp"},
    {34, "timestamp array", Layout::kTypedItems, 0, Support::kUnsupported, DType::kNone, ""},
    {35, "proxy", Layout::kOpaque, 0, Support::kUnsupported, DType::kNone, ""},
    {36, "time", Layout::kFixed, 8, Support::kUnsupported, DType::kNone, "java.sql.Time"},
    {37, "time array", Layout::kTypedItems, 0, Support::kUnsupported, DType::kNone, ""},
    {38, "enum", Layout::kEnum, 0, Support::kUnsupported, DType::kNone, ""},
    {99, "platform proxy", Layout::kOpaque, 0, Support::kUnsupported, DType::kNone, ""},
    {101, "NULL", Layout::kFixed, 0, Support::kUnsupported, DType::kNone, ""},
    {102, "reference to an earlier object", Layout::kFixed, 4, Support::kUnsupported, DType::kNone, ""},
    {103, "object", Layout::kObject, 0, Support::kObject, DType::kNone, ""},
    // The optimized marshaller's catch-all; java.sql.Date, that is SQL DATE, travels in it.
    {0xfe, "SQL date or Java-serialized object", Layout::kPacked, 1, Support::kUnsupported, DType::kNone,
     "java.sql.Date"},
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

// An i32 type id, followed by the class name if the type is not registered (id 0).
void SkipTypeId(Reader& reader) {
  if (reader.Get<std::int32_t>() == 0) reader.TypedString();
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
      SkipTypeId(reader);
      return SkipItems(reader, reader.Count(1), depth + 1);
    case Layout::kCollection:
    case Layout::kMap: {
      const std::size_t per_item = type->layout == Layout::kMap ? 2 : 1;
      const std::size_t count = reader.Count(per_item);
      reader.Skip(1);
      return SkipItems(reader, count * per_item, depth + 1);
    }
    case Layout::kEnum:
      SkipTypeId(reader);
      return reader.Skip(4);
    case Layout::kDecimal:
      reader.Skip(4);
      return SkipBytes(reader, 1);
    case Layout::kClass:
      return SkipTypeId(reader);
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

void SkipValue(Reader& reader) { Skip(reader, 0); }

}  // namespace ignite_strategy
