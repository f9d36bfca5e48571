// Type metadata (operation 3002): a type's fields, and its schemas, which say where in an object each field
// is.
#ifndef IGNITE_STRATEGY_NATIVE_BINARY_METADATA_H_
#define IGNITE_STRATEGY_NATIVE_BINARY_METADATA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "native/wire/buffer.h"

namespace ignite_strategy {

struct FieldMetadata {
  std::string name;
  std::uint8_t type_code = 0;
  std::int32_t id = 0;
};

struct TypeMetadata {
  std::int32_t type_id = 0;
  std::string name;
  // In the order of a hash map: it says nothing about where values are.
  std::vector<FieldMetadata> fields;
  // Schema id -> field ids in the order in which the values were written.
  std::map<std::int32_t, std::vector<std::int32_t>> schemas;
  // The names of an enum's values by their ordinals.
  std::map<std::int32_t, std::string> enum_values;

  const FieldMetadata* Find(std::int32_t field_id) const;
};

// Reads the response of BINARY_TYPE_GET; nothing if the server does not know the type.
std::optional<TypeMetadata> ParseTypeMetadata(Reader& reader);

// The types met so far. Not thread-safe.
class TypeCache {
 public:
  // Asks the server for one type.
  using Fetch = std::function<std::optional<TypeMetadata>(std::int32_t type_id)>;
  explicit TypeCache(Fetch fetch) : fetch_(std::move(fetch)) {}

  // Null if the server does not know the type.
  const TypeMetadata* Get(std::int32_t type_id);
  // The field ids of one schema. Asks again when the schema is not known yet: types grow while they are read.
  // Throws Error(kDataLoss) if the server does not know it either.
  const std::vector<std::int32_t>& Schema(std::int32_t type_id, std::int32_t schema_id);

 private:
  Fetch fetch_;
  std::unordered_map<std::int32_t, std::optional<TypeMetadata>> types_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BINARY_METADATA_H_
