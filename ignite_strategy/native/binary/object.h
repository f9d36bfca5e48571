// A binary object in place: header, fields found through the object's own footer, never through the
// metadata's list.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_OBJECT_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "native/binary/metadata.h"
#include "native/wire/buffer.h"

namespace ignite_strategy {

class ObjectView {
 public:
  // Reads the object whose type code (103) is the next byte and moves past it. Checks the header against the
  // bytes.
  static ObjectView Read(Reader& reader);
  // The same for an object inside a wrapper (type code 27).
  static ObjectView ReadWrapped(Reader& reader);

  // The id under which the server knows the type: computed from the class name if the object carries that
  // instead.
  std::int32_t type_id() const { return type_id_; }
  std::int32_t schema_id() const { return schema_id_; }
  bool compact() const { return compact_; }
  std::size_t field_count() const { return field_count_; }
  // The id of the field at `index` in a full footer (not compact).
  std::int32_t field_id(std::size_t index) const;
  // A reader on the typed value of the field at `index`, which ends where the object's fields end.
  Reader Field(std::size_t index) const;
  // The ids of all fields in order, whichever kind of footer the object has.
  std::vector<std::int32_t> FieldIds(TypeCache& types) const;

 private:
  std::size_t Entry(std::size_t index) const { return footer_ + index * entry_size_; }

  const std::uint8_t* data_ = nullptr;
  std::int32_t type_id_ = 0;
  std::int32_t schema_id_ = 0;
  std::size_t first_field_ = 24;
  std::size_t footer_ = 0;  // where the fields end
  std::size_t entry_size_ = 0;
  std::size_t offset_size_ = 4;
  std::size_t field_count_ = 0;
  bool compact_ = false;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_OBJECT_H_
