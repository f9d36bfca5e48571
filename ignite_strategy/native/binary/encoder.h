// Columns to rows of bytes: writes keys and values as Ignite keeps them, one row after another.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_ENCODER_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "native/binary/metadata.h"
#include "native/binary/types.h"
#include "native/wire/buffer.h"

namespace ignite_strategy {

// What the objects of one column have in common.
struct ObjectType {
  ObjectType(const std::string& name, const std::vector<std::string>& fields, bool compact_footer);
  std::int32_t type_id = 0;
  std::int32_t schema_id = 0;
  std::vector<std::int32_t> field_ids;
  bool compact = true;
};

// The id of a schema: a hash of its field ids in the order in which their values are written.
std::int32_t SchemaId(const std::vector<std::int32_t>& field_ids);
// Java's Arrays.hashCode of bytes, which is the hash code of a binary object. From `hash` on.
std::int32_t BytesHash(const std::uint8_t* data, std::size_t size);

// One value per row, in memory that somebody else owns: numbers and strings as they stand in tensors, so that
// what was read can be written.
struct ValueColumn {
  std::string name;  // "val.metadata.label", for messages
  std::uint8_t type_code = 0;
  const std::uint8_t* items = nullptr;      // numbers, `item_size` bytes each
  const std::string_view* texts = nullptr;  // or strings
  std::size_t item_size = 0;
  std::int64_t length = 1;                   // items per row where there are no splits
  const std::int64_t* splits = nullptr;      // where each row's items begin, one more than there are rows
  const std::uint8_t* valid = nullptr;       // 0 = this row has NULL; none at all if this is null
  std::vector<ValueColumn> parts;            // fields; items of a collection; keys and values of a map
  std::shared_ptr<const ObjectType> object;  // of an object
  std::int32_t enum_id = 0;                  // type id of an enum
  // Of a collection (1 = ArrayList, 3 = HashSet) or map (1, 2); of timestamps 2 = items of kTimestampPair
  // bytes.
  std::uint8_t kind = 1;
};

class Encoder {
 public:
  // Appends the value of `row`, its type code first. Throws Error(kInvalidArgument) that names the column.
  void Write(const ValueColumn& column, std::int64_t row, Writer& writer);

 private:
  void WriteItems(const ValueColumn& column, std::int64_t begin, std::int64_t end, Writer& writer);
  void WriteObject(const ValueColumn& column, std::int64_t row, Writer& writer);
  Item At(const ValueColumn& column, std::int64_t index) const;

  std::vector<std::size_t> offsets_;  // of the fields of the objects being written, inner ones last
};

// Whether the text is UTF-8 as Java accepts it; anything else it would replace without a word.
bool IsUtf8(std::string_view text);
// The request of operation 3003: registers a type, a schema of it, or the constants of an enum.
Writer TypeMetadataRequest(const std::string& name, const std::vector<std::pair<std::string, int>>& fields,
                           const std::vector<std::pair<std::string, int>>& enum_values);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_ENCODER_H_
