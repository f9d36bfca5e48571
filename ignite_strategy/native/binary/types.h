// The one table of Ignite's value types: what each code is called, how its bytes are laid out, which
// TensorFlow dtype it becomes, and whether this version reads it as a column.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_TYPES_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "native/wire/buffer.h"

namespace ignite_strategy {

// The values are those of TensorFlow's TF_DataType, so that the C border passes them through unchanged.
enum class DType : std::int32_t {
  kNone = 0,
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kInt64 = 9,
  kBool = 10,
  kUint16 = 17,
};

// Bytes of one element; 0 for strings and for kNone.
std::size_t ItemSize(DType dtype);
// NumPy's name of the dtype ("int32", "bool", ...); strings are "string".
const char* DTypeName(DType dtype);

// How the bytes after the type code are laid out, which is what skipping and reading need to know.
enum class Layout : std::uint8_t {
  kFixed,        // item_size bytes
  kPacked,       // i32 n, n * item_size bytes
  kTypedItems,   // i32 n, n typed values
  kObjectArray,  // i32 type id [, class name], i32 n, n typed values
  kCollection,   // i32 n, u8 kind, n typed values
  kMap,          // i32 n, u8 kind, n pairs of typed values
  kEnum,         // i32 type id [, class name], i32 ordinal
  kEnumArray,    // i32 type id [, class name], i32 n, n typed values
  kDecimal,      // i32 scale, i32 n, n bytes
  kClass,        // i32 type id [, class name]
  kWrapped,      // i32 n, n bytes, i32 start
  kObject,       // header, fields, footer; its length is in the header
  kOpaque,       // no way to find its end
};

// Which part of the column builders takes it.
enum class Support : std::uint8_t { kScalar, kArray, kObject, kUnsupported };

struct TypeInfo {
  std::uint8_t code;
  const char* name;
  Layout layout;
  std::uint8_t item_size;
  Support support;
  DType dtype;
  const char* java;  // the class, as query entities name it
};

namespace code {
constexpr std::uint8_t kInt = 3, kLong = 4, kString = 9, kWrapped = 27, kNull = 101, kHandle = 102,
                       kObject = 103;
}  // namespace code

// Null for a code that Ignite does not define.
const TypeInfo* FindType(std::uint8_t type_code);
// "string", "UUID" or "unknown type code 77".
const char* TypeName(std::uint8_t type_code);
// The same with its article: "an int", "a UUID".
std::string WithArticle(std::uint8_t type_code);
// The code of the column type with this dtype: a scalar, or an array of it. 0 if there is none.
std::uint8_t CodeFor(DType dtype, bool array);

// Moves past one typed value, whatever it is. Throws Error(kDataLoss) for bytes that cannot be one.
void SkipValue(Reader& reader);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_TYPES_H_
