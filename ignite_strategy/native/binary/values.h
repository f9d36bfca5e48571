// Between the bytes of Ignite's values and items of tensors, where one is not simply the other.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_VALUES_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "native/binary/types.h"
#include "native/wire/buffer.h"

namespace ignite_strategy {

// Memory for texts that are made while rows are read; it lives as long as the batch which shows them.
class Arena {
 public:
  // Bytes that stay where they are.
  char* Allocate(std::size_t size);
  std::string_view Keep(std::string_view text);

 private:
  std::vector<std::unique_ptr<char[]>> chunks_;
  std::size_t left_ = 0;
  char* at_ = nullptr;
};

// More bytes than this are not a number but an attack: turning them into digits takes quadratic time.
constexpr std::size_t kMaxDecimalBytes = 4096;

// The exact text of the decimal at `reader` (scale and magnitude, after the type code), as Java's
// BigDecimal.toString writes it: "-0.01", "1E+3". Throws Error(kDataLoss) for a number that is longer than
// any real one.
std::string ReadDecimal(Reader& reader);
// The nearest double to such a text. Throws Error(kInvalidArgument) if it is beyond their range.
double DecimalToDouble(const std::string& text);
// The size of a timestamp as Ignite keeps it: int64 milliseconds, int32 nanoseconds within the millisecond.
constexpr std::size_t kTimestampPair = 12;
// Nanoseconds since 1970 of milliseconds and nanoseconds within the millisecond. Throws Error
// (kInvalidArgument) outside the years 1677 to 2262, Error(kDataLoss) for impossible nanoseconds.
std::int64_t TimestampNanos(std::int64_t millis, std::int32_t nanos);
// The milliseconds of the java.sql.Date at `reader` (after the type code 0xfe); false if it is an object of
// another class. Moves past it either way.
bool ReadSqlDate(Reader& reader, Item* millis);
// The 36 characters of a UUID, in the byte order of java.util.UUID.
void FormatUuid(const std::uint8_t* wire, char* text);

// Writers of the type table.
template <std::size_t size>
void WriteFixed(Writer& writer, const Item& item) {
  if (item.size != size) throw Error(Code::kInternal, "an item of the wrong size");
  writer.PutBytes(item.data, size);
}
void WriteString(Writer& writer, const Item& item);
void WriteUuid(Writer& writer, const Item& item);       // from its text
void WriteDecimal(Writer& writer, const Item& item);    // from its text: digits, a point, an exponent
void WriteTimestamp(Writer& writer, const Item& item);  // from int64 nanoseconds
void WriteSqlDate(Writer& writer, const Item& item);    // from int64 milliseconds

// Writes a whole scalar, its type code first. Throws Error(kUnimplemented) for a type that has no writer.
void WriteScalar(Writer& writer, std::uint8_t type_code, const Item& item);
// Writes a whole array of numbers, its type code first; `data` holds `count` items one after another.
void WriteArray(Writer& writer, std::uint8_t type_code, const std::uint8_t* data, std::size_t count);
// The same for items that are strings: UUIDs and decimals too.
void WriteArray(Writer& writer, std::uint8_t type_code, const std::string_view* items, std::size_t count);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_VALUES_H_
