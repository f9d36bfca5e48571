// The one table of Ignite's value types: what each code is called, how its bytes are laid out, which
// TensorFlow dtype and shape it becomes, how it is read and how it is written. Schema discovery, the column
// builders, the bulk writer, the tests and the README's table follow it.
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

// What a column makes of it.
enum class Support : std::uint8_t {
  kScalar,       // one item per row
  kArray,        // a vector per row
  kSequence,     // a vector per row, or for objects a dict of vectors, whatever type its items have
  kMap,          // {keys, values}, both as of a sequence
  kObject,       // a dict
  kUnsupported,  // nothing
};

// How a value becomes an item of a tensor where there is a choice.
struct Forms {
  bool decimal_float64 = false;   // else exact text
  bool enum_name = false;         // else the ordinal
  bool timestamp_millis = false;  // else nanoseconds
};

// One value as it stands in a tensor: the bytes of a number, or those of a string.
struct Item {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
};

// Writes what follows the type code for one item in its default form. Throws Error(kInvalidArgument) for an
// item that cannot be such a value.
using ItemWriter = void (*)(Writer& writer, const Item& item);

struct TypeInfo {
  std::uint8_t code;
  const char* name;
  Layout layout;
  std::uint8_t item_size;
  Support support;
  DType dtype;        // in the default forms
  std::uint8_t item;  // the code of an array's items, 0 = they are not values of one type
  const char* java;   // the class, as query entities name it
  ItemWriter writer;  // of a scalar, or of one item of an array; null if it cannot be written
};

namespace code {
constexpr std::uint8_t kByte = 1, kShort = 2, kInt = 3, kLong = 4, kFloat = 5, kDouble = 6, kChar = 7,
                       kBool = 8, kString = 9, kUuid = 10, kDate = 11, kObjectArray = 23, kCollection = 24,
                       kMap = 25, kWrapped = 27, kEnum = 28, kDecimal = 30, kTimestamp = 33, kTime = 36,
                       kBinaryEnum = 38, kNull = 101, kHandle = 102, kObject = 103, kSqlDate = 0xfe;
}  // namespace code

// Null for a code that Ignite does not define.
const TypeInfo* FindType(std::uint8_t type_code);
// "string", "UUID" or "unknown type code 77".
const char* TypeName(std::uint8_t type_code);
// The same with its article: "an int", "a UUID".
std::string WithArticle(std::uint8_t type_code);
// The code of the column type with this dtype: a scalar, or an array of it. 0 if there is none.
std::uint8_t CodeFor(DType dtype, bool array);
// The dtype of a scalar's value or of an array's items in these forms.
DType DTypeOf(std::uint8_t type_code, const Forms& forms);
// The code that stands for all those which are read alike: java.util.Date for java.sql.Date, one of the two
// codes of enums, the collection for an object array. Other codes stand for themselves.
std::uint8_t Family(std::uint8_t type_code);

// Moves past one typed value, whatever it is. Throws Error(kDataLoss) for bytes that cannot be one.
void SkipValue(Reader& reader);
// Moves past an i32 type id and the class name which follows an id of 0. Returns the id.
std::int32_t ReadTypeId(Reader& reader);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_TYPES_H_
